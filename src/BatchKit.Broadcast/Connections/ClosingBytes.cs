using BatchKit.Broadcast.WebSockets;

namespace BatchKit.Broadcast.Connections;

/// <summary>What a protocol says last.</summary>
internal static class ClosingBytes
{
    /// <summary>A WebSocket's close frame with a code.</summary>
    public const int MaxBytes = 4;

    public static ReadOnlySpan<byte> For(ClientProtocol protocol, DisconnectReason reason) =>
        protocol == ClientProtocol.WebSocket ? WebSocketClosings.FrameFor(reason) : [];
}
