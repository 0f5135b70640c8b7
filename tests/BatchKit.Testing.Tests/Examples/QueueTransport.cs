using System.Buffers;
using System.Threading.Channels;
using BatchKit.Transports;

namespace BatchKit.Testing.Tests.Examples;

/// <summary>A transport of the examples: puts one frame a send into a queue of this process, and completes when the queue has it.</summary>
internal sealed class QueueTransport(ChannelWriter<byte[]> queue) : IBatchTransport, IDisposable
{
    private volatile bool _isDisposed;

    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        var frame = new ArrayBufferWriter<byte>();
        FrameWriter.Write(frame, batches.Span);
        await queue.WriteAsync(frame.WrittenSpan.ToArray(), cancellationToken);
    }

    public void Dispose() => _isDisposed = true;
}

/// <summary>The transport's receiver: hands the queue's frames to the next hop, one at a time.</summary>
internal sealed class QueueReceiver : IAsyncDisposable
{
    private readonly BatchReceiver _receiver;
    private readonly CancellationTokenSource _stop = new();
    private readonly Task _receiving;

    public QueueReceiver(ChannelReader<byte[]> queue, BatchReceiver receiver)
    {
        _receiver = receiver;

        // The loop would keep the caller's transaction, activity and AsyncLocals otherwise.
        _receiving = CallerContext.RunWithout(() => ReceiveAsync(queue));
    }

    public async ValueTask DisposeAsync()
    {
        await _stop.CancelAsync();
        await _receiving;
        _stop.Dispose();
    }

    private async Task ReceiveAsync(ChannelReader<byte[]> queue)
    {
        try
        {
            await foreach (var frame in queue.ReadAllAsync(_stop.Token))
                await _receiver.ReceiveAsync(frame, _stop.Token);
        }
        catch (OperationCanceledException)
        {
            // The receiver was stopped.
        }
    }
}
