using BatchKit.Broadcast.Telnet;
using BatchKit.Broadcast.WebSockets;
using BatchKit.Transports;

namespace BatchKit.Broadcast.Fanout;

/// <summary>Writes messages as a wire format has them.</summary>
internal static class MessageEncoder
{
    /// <summary>At most what a message takes in the format.</summary>
    public static int GetMaxBytes(WireFormat format, int payloadBytes) =>
        format.IsTelnet ? TelnetEncoder.GetMaxBytes(payloadBytes)
        : format == WireFormat.Raw ? payloadBytes
        : WebSocketEncoder.GetMaxBytes(payloadBytes);

    /// <summary>Encodes a message.</summary>
    /// <returns>False when clients of this format do not get it: a control message, or GMCP where it was not agreed on.</returns>
    public static bool TryEncode(WireFormat format, BatchMessage message, Span<byte> destination, out int written)
    {
        written = 0;
        if (message.Kind == MessageKind.Control)
            return false;
        if (format.IsTelnet)
            return TelnetEncoder.TryEncode(format, message, destination, out written);
        if (message.Header?.ContentType == TelnetMessages.GmcpContentType)
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
