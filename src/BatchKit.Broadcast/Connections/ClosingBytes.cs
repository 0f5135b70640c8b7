using BatchKit.Broadcast.WebSockets;

namespace BatchKit.Broadcast.Connections;

/// <summary>What a protocol says last, and to keep a silent connection alive.</summary>
internal static class ClosingBytes
{
    public const int MaxBytes = 4;

    public static ReadOnlySpan<byte> For(ClientProtocol protocol, DisconnectReason reason) =>
        protocol == ClientProtocol.WebSocket ? WebSocketClosings.FrameFor(reason) : [];
}
