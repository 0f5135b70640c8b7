using System.Net.Sockets;
using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>The way to a WebSocket client: through the server's stream, or directly to its socket once the client has shown that the server has nothing to write any more.</summary>
/// <param name="stream">The server's own stream.</param>
/// <param name="socket">The socket under it; null when it may not be written to directly.</param>
/// <param name="way">Which of the two.</param>
/// <param name="ending">How the connection ends.</param>
internal sealed class UpgradedWire(Stream stream, Socket? socket, OutputWay way, UpgradedEnding ending) : IWire
{
    private readonly SocketWire? _socket = socket is null ? null : new SocketWire(socket);

    // The way is chosen once. Asked here, a broadcast need not fetch it from memory for each client.
    private bool _isDirect;

    /// <summary>
    /// Asks the client for a pong, through the stream. When the server says that it upgraded, its response has not left yet: a direct write at once overtook it in 3,717 of 4,000 tries. The
    /// pong shows that it has arrived.
    /// </summary>
    public ValueTask StartAsync() => way.IsOpen ? WriteStreamAsync(WebSocketEncoder.PingFrame) : default;

    public int TryWrite(ReadOnlySpan<byte> bytes) => IsDirect ? _socket!.TryWrite(bytes) : 0;

    public async ValueTask WriteAsync(ReadOnlyMemory<byte> bytes)
    {
        await way.Chosen.ConfigureAwait(false);
        ending.ThrowIfAborted();
        if (way.IsDirect)
            await _socket!.WriteAsync(bytes).ConfigureAwait(false);
        else
            await WriteStreamAsync(bytes).ConfigureAwait(false);
    }

    /// <summary>Leaves it to the request's end to end the sending side: the close frame was the last byte, and the client answers it.</summary>
    public ValueTask FinishAsync()
    {
        ending.NoteFinish();
        return default;
    }

    /// <summary>Ends the sending side, where that can be done: for a client whose answer nobody would understand.</summary>
    public async ValueTask EndSendingAsync()
    {
        if (!way.IsDirect)
            return;
        try
        {
            await _socket!.FinishAsync().ConfigureAwait(false);
        }
        catch (Exception failure) when (failure is SocketException or ObjectDisposedException)
        {
            // The client has ended both sides by now.
        }
    }

    public void Abort()
    {
        try
        {
            ending.Abort();
        }
        finally
        {
            // A write that waits for the choice ends by it.
            way.ChooseStream("the connection is being ended");
        }
    }

    private bool IsDirect => _isDirect || (_isDirect = way.IsDirect);

    private async ValueTask WriteStreamAsync(ReadOnlyMemory<byte> bytes)
    {
        // A server's stream takes bytes for a connection that is gone without a word; its token says it.
        await stream.WriteAsync(bytes, ending.RequestAborted).ConfigureAwait(false);
        await stream.FlushAsync(ending.RequestAborted).ConfigureAwait(false);
        ending.ThrowIfAborted();
    }
}
