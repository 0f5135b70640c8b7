using BatchKit.Broadcast.Telnet;
using BatchKit.Broadcast.WebSockets;
using BatchKit.Transports;

namespace BatchKit.Broadcast.Fanout;

/// <summary>The encoding of messages on a client's wire. Clients of the same format share encoded bytes.</summary>
internal readonly record struct WireFormat
{
    /// <summary>The number of formats; <see cref="Index"/> is less.</summary>
    public const int Count = FirstTelnet + (4 * Charsets * PromptEndings);

    private const int FirstTelnet = 3;
    private const int Charsets = 3;
    private const int PromptEndings = 3;

    private WireFormat(int index) => Index = (byte)index;

    public static WireFormat Raw { get; } = new(0);

    public static WireFormat WebSocketText { get; } = new(1);

    public static WireFormat WebSocketBinary { get; } = new(2);

    public byte Index { get; }

    public bool IsTelnet => Index >= FirstTelnet;

    public TelnetCharset Charset => (TelnetCharset)(TelnetIndex % Charsets);

    public PromptEnding PromptEnding => (PromptEnding)(TelnetIndex / Charsets % PromptEndings);

    public bool TakesGmcp => (TelnetIndex / (Charsets * PromptEndings) & 1) != 0;

    public bool TakesMsdp => (TelnetIndex / (Charsets * PromptEndings) & 2) != 0;

    private int TelnetIndex => Index - FirstTelnet;

    public static WireFormat Telnet(TelnetCharset charset, PromptEnding promptEnding, bool takesGmcp, bool takesMsdp = false) =>
        new(FirstTelnet + (int)charset + (Charsets * ((int)promptEnding + (PromptEndings * ((takesGmcp ? 1 : 0) + (takesMsdp ? 2 : 0))))));

    public static WireFormat FromIndex(byte index) => new(index);
}

/// <summary>Encodes messages in a wire format.</summary>
internal static class MessageEncoder
{
    /// <summary>The most bytes that a message may take in the format. Close to what it takes, because the array may wait in queues.</summary>
    public static int GetMaxBytes(WireFormat format, ReadOnlySpan<byte> payload) =>
        format.IsTelnet ? TelnetEncoder.GetMaxBytes(payload)
        : format == WireFormat.Raw ? payload.Length
        : WebSocketEncoder.GetBytes(payload.Length);

    /// <summary>Encodes a message.</summary>
    /// <returns>False when clients of this format do not get it: a control message, GMCP or MSDP without agreement, or a message about the echo.</returns>
    public static bool TryEncode(WireFormat format, BatchMessage message, Span<byte> destination, out int written)
    {
        written = 0;
        if (message.Kind == MessageKind.Control)
            return false;
        if (format.IsTelnet)
            return TelnetEncoder.TryEncode(format, message, destination, out written);
        if (TelnetMessages.OptionOf(message.Header) is not null)
            return false;
        if (format == WireFormat.Raw)
        {
            message.Payload.Span.CopyTo(destination);
            written = message.Payload.Length;
        }
        else
        {
            written = WebSocketEncoder.Encode(message.Payload.Span, isText: format == WireFormat.WebSocketText, destination);
        }

        return true;
    }
}
