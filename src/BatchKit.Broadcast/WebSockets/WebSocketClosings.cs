using System.Buffers.Binary;
using System.Net.WebSockets;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>The close frames that a server sends (RFC 6455, sections 5.5.1 and 7.4.1).</summary>
internal static class WebSocketClosings
{
    /// <summary>1000: normal closure.</summary>
    private static ReadOnlySpan<byte> Normal => [0x88, 2, 0x03, 0xE8];

    /// <summary>1001: going away.</summary>
    private static ReadOnlySpan<byte> GoingAway => [0x88, 2, 0x03, 0xE9];

    /// <summary>1008: policy violation.</summary>
    private static ReadOnlySpan<byte> PolicyViolation => [0x88, 2, 0x03, 0xF0];

    /// <summary>1011: internal error.</summary>
    private static ReadOnlySpan<byte> InternalError => [0x88, 2, 0x03, 0xF3];

    /// <summary>1007: a text that is no UTF-8.</summary>
    public static ReadOnlySpan<byte> InvalidText => [0x88, 2, 0x03, 0xEF];

    /// <summary>1009: a message too big to process.</summary>
    public static ReadOnlySpan<byte> TooBig => [0x88, 2, 0x03, 0xF1];

    /// <summary>Answers a client's close frame with its own code (RFC 6455, section 5.5.1).</summary>
    public static byte[] Answer(WebSocketCloseStatus? status) =>
        status is null or WebSocketCloseStatus.Empty ? [0x88, 0] : [0x88, 2, (byte)((int)status >> 8), (byte)status];

    public static WebSocketCloseStatus StatusOf(ReadOnlySpan<byte> payload) =>
        payload.Length < sizeof(ushort) ? WebSocketCloseStatus.NormalClosure : (WebSocketCloseStatus)BinaryPrimitives.ReadUInt16BigEndian(payload);

    public static ReadOnlySpan<byte> FrameFor(DisconnectReason reason) => reason switch
    {
        DisconnectReason.Stopped => GoingAway,
        DisconnectReason.Idle or DisconnectReason.NotAuthenticated or DisconnectReason.SlowConsumer => PolicyViolation,
        DisconnectReason.HandlerFailed => InternalError,
        _ => Normal,
    };
}
