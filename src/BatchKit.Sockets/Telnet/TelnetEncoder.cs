using System.Text;
using BatchKit.Broadcast.Fanout;
using BatchKit.Transports;

namespace BatchKit.Broadcast.Telnet;

/// <summary>Encodes messages for telnet clients: it converts the charset, doubles IAC, ends prompts and frames GMCP.</summary>
internal static class TelnetEncoder
{
    // A GMCP or MSDP message has five bytes around it, a prompt two after it.
    private const int MaxBytesAround = 5;

    /// <summary>Each IAC takes two bytes. Other charsets never take more bytes than UTF-8.</summary>
    public static int GetMaxBytes(ReadOnlySpan<byte> payload) => payload.Length + payload.Count(TelnetCode.Interpret) + MaxBytesAround;

    /// <summary>True when messages without headers need no change.</summary>
    public static bool IsPlain(WireFormat format, ReadOnlySpan<byte> payload) =>
        format.Charset == TelnetCharset.Utf8 ? !payload.Contains(TelnetCode.Interpret) : Ascii.IsValid(payload);

    /// <summary>Encodes a message.</summary>
    /// <returns>False when the client must not get it, because it did not agree to GMCP or MSDP, and for a message about its echo, whose bytes depend on the client.</returns>
    public static bool TryEncode(WireFormat format, BatchMessage message, Span<byte> destination, out int written)
    {
        written = 0;
        var payload = message.Payload.Span;
        if (TelnetMessages.OptionOf(message.Header) is { } option)
        {
            if (!IsTaken(format, option))
                return false;
            written = EncodeSubnegotiation(option, payload, destination);
            return true;
        }

        written = format.Charset == TelnetCharset.Utf8 || Ascii.IsValid(payload)
            ? DoubleInterpret(payload, destination)
            : Transcode(payload, format.Charset, destination);
        if (message.Kind == MessageKind.Prompt && format.PromptEnding != PromptEnding.None)
        {
            destination[written++] = TelnetCode.Interpret;
            destination[written++] = format.PromptEnding == PromptEnding.EndOfRecord ? TelnetCode.EndOfRecord : TelnetCode.GoAhead;
        }

        return true;
    }

    private static bool IsTaken(WireFormat format, byte option) => option switch
    {
        TelnetCode.GmcpOption => format.TakesGmcp,
        TelnetCode.MsdpOption => format.TakesMsdp,
        _ => false,
    };

    private static int EncodeSubnegotiation(byte option, ReadOnlySpan<byte> payload, Span<byte> destination)
    {
        ReadOnlySpan<byte> start = [TelnetCode.Interpret, TelnetCode.Subnegotiation, option];
        ReadOnlySpan<byte> end = [TelnetCode.Interpret, TelnetCode.SubnegotiationEnd];
        start.CopyTo(destination);
        var written = start.Length + DoubleInterpret(payload, destination[start.Length..]);
        end.CopyTo(destination[written..]);
        return written + end.Length;
    }

    private static int DoubleInterpret(ReadOnlySpan<byte> payload, Span<byte> destination)
    {
        var written = 0;
        while (payload.IndexOf(TelnetCode.Interpret) is var index && index >= 0)
        {
            payload[..(index + 1)].CopyTo(destination[written..]);
            written += index + 1;
            destination[written++] = TelnetCode.Interpret;
            payload = payload[(index + 1)..];
        }

        payload.CopyTo(destination[written..]);
        return written + payload.Length;
    }

    private static int Transcode(ReadOnlySpan<byte> payload, TelnetCharset charset, Span<byte> destination)
    {
        var written = 0;
        while (!payload.IsEmpty)
        {
            var plain = payload.IndexOfAnyExceptInRange((byte)0, (byte)127);
            plain = plain < 0 ? payload.Length : plain;
            payload[..plain].CopyTo(destination[written..]);
            written += plain;
            payload = payload[plain..];
            if (payload.IsEmpty)
                break;
            Rune.DecodeFromUtf8(payload, out var rune, out var bytes);
            payload = payload[bytes..];
            var isKnown = charset == TelnetCharset.Latin1 && rune.Value <= byte.MaxValue;
            destination[written++] = isKnown ? (byte)rune.Value : (byte)'?';
            if (isKnown && rune.Value == TelnetCode.Interpret)
                destination[written++] = TelnetCode.Interpret;
        }

        return written;
    }
}

/// <summary>What follows a prompt on a telnet wire.</summary>
internal enum PromptEnding
{
    /// <summary>Nothing: go-ahead is suppressed (RFC 858) and end-of-record was not agreed.</summary>
    None = 0,

    /// <summary>IAC GA (RFC 854).</summary>
    GoAhead = 1,

    /// <summary>IAC EOR (RFC 885).</summary>
    EndOfRecord = 2,
}
