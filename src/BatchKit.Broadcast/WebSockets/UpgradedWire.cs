using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>The way to a WebSocket client through the server's stream.</summary>
/// <param name="stream">The server's own stream.</param>
/// <param name="abort">Ends the request, and with it the connection.</param>
internal sealed class UpgradedWire(Stream stream, Action abort) : IWire
{
    // Guards all fields.
    private readonly Lock _lock = new();
    private bool _isFinished;
    private bool _hasInputEnded;
    private bool _isDetached;

    public int TryWrite(ReadOnlySpan<byte> bytes) => 0;

    public async ValueTask WriteAsync(ReadOnlyMemory<byte> bytes)
    {
        await stream.WriteAsync(bytes).ConfigureAwait(false);
        await stream.FlushAsync().ConfigureAwait(false);
    }

    /// <summary>Leaves it to the request's end to end the sending side: the close frame was the last byte, and the client answers it.</summary>
    public ValueTask FinishAsync()
    {
        lock (_lock)
            _isFinished = true;
        return default;
    }

    public void Abort()
    {
        lock (_lock)
        {
            // After an orderly end an abort would lose what the server has still to send.
            if (!_isDetached && !(_isFinished && _hasInputEnded))
                abort();
        }
    }

    /// <summary>Says that the client sends no more.</summary>
    public void EndInput()
    {
        lock (_lock)
            _hasInputEnded = true;
    }

    /// <summary>Says that the request is about to end: its context serves another one then, which nothing may abort.</summary>
    public void Detach()
    {
        lock (_lock)
            _isDetached = true;
    }
}
