using System.IO.Pipelines;
using System.Net.Sockets;
using System.Net.WebSockets;
using BatchKit.Broadcast.Receiving;
using BatchKit.Broadcast.WebSockets;

namespace BatchKit.Broadcast.Connections;

/// <summary>Writes to a connection that other code owns. A write may wait, so all output goes through the queue; the end cancels the write and tells the owner, who closes the connection.</summary>
internal sealed class AttachedWire : IWire, IAsyncDisposable
{
    private readonly Func<ReadOnlyMemory<byte>, CancellationToken, ValueTask> _write;
    private readonly Socket? _socket;
    private readonly CancellationTokenSource _ending = new();

    // Guards the next field.
    private readonly Lock _lock = new();
    private Task? _cancelling;

    /// <param name="write">Writes all bytes, or throws.</param>
    /// <param name="socket">The socket under it; null when it is not known.</param>
    public AttachedWire(Func<ReadOnlyMemory<byte>, CancellationToken, ValueTask> write, Socket? socket = null)
    {
        _write = write;
        _socket = socket;
        Ending = _ending.Token;
    }

    /// <summary>Cancelled when nothing more will be written.</summary>
    public CancellationToken Ending { get; }

    public long? AcknowledgedBytes => Acknowledgements.Of(_socket);

    public int TryWrite(ReadOnlySpan<byte> bytes) => 0;

    public async ValueTask WriteAsync(ReadOnlyMemory<byte> bytes)
    {
        // Not on this thread, which may be in the middle of a send to other connections: the owner's code may block, as the reader of a pipe with an inline scheduler does.
        await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        await _write(bytes, Ending).ConfigureAwait(false);
    }

    public ValueTask FinishAsync() => default;

    public void Abort()
    {
        // The owner's callbacks run on the pool and not here, because this thread may be in the middle of a send to other connections.
        lock (_lock)
            _cancelling ??= _ending.CancelAsync();
    }

    /// <summary>Waits for the callbacks that the owner registered for the end, and throws what they threw.</summary>
    public async ValueTask DisposeAsync()
    {
        Abort();
        try
        {
            await _cancelling!.ConfigureAwait(false);
        }
        finally
        {
            _ending.Dispose();
        }
    }

    public static AttachedWire To(Stream stream) => new(
        async (bytes, cancellationToken) =>
        {
            await stream.WriteAsync(bytes, cancellationToken).ConfigureAwait(false);
            await stream.FlushAsync(cancellationToken).ConfigureAwait(false);
        },
        (stream as NetworkStream)?.Socket);

    public static AttachedWire To(PipeWriter output, Socket? socket = null) => new(
        async (bytes, cancellationToken) =>
        {
            var flushed = await output.WriteAsync(bytes, cancellationToken).ConfigureAwait(false);
            if (flushed.IsCompleted || flushed.IsCanceled)
                throw new IOException("The pipe's reader has ended, or the owner cancelled the flush.");
        },
        socket);

    public static AttachedWire To(WebSocket socket)
    {
        var messages = new MessageStream(socket);
        return new AttachedWire(messages.WriteAsync);
    }
}

/// <summary>The input of a connection that the transport does not read: it ends with the output.</summary>
internal sealed class UnreadInbound(ClientConnection connection) : IInbound
{
    public async Task<InboundEnd> RunAsync(InboundDelivery delivery, CancellationToken cancellationToken)
    {
        await connection.Output.Ended.ConfigureAwait(false);
        return InboundEnd.Lost;
    }
}
