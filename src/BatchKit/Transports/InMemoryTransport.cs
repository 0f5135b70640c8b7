using System.Buffers;
using System.Runtime.CompilerServices;
using BatchKit.Diagnostics;
using Microsoft.Extensions.Logging;

namespace BatchKit.Transports;

/// <summary>Replaces a broker in one process: it encodes each send as a frame and receives it at once. It delivers each batch once, in order.</summary>
/// <remarks>A send completes when the next hop has the batches. Concurrent sends wait for one another.</remarks>
public sealed class InMemoryTransport : IBatchTransport, IAsyncDisposable, IDisposable
{
    // A larger frame's memory is not kept: most sends are far smaller than the largest.
    private const int MaxKeptFrameBytes = 4 * 1024 * 1024;

    private readonly IBatchTransport _next;
    private readonly SemaphoreSlim _turn = new(1, 1);

    // Used only by the send that has the turn.
    private ArrayBufferWriter<byte> _frame = new();
    private volatile bool _isDisposed;

    /// <summary>Creates the transport with its receiver.</summary>
    /// <param name="next">The next hop, which the receiver hands batches to.</param>
    /// <param name="options">The receiver's settings; the defaults when null.</param>
    /// <param name="timeProvider">The receiver's clock; the system's when null.</param>
    /// <param name="logger">The receiver's log.</param>
    public InMemoryTransport(IBatchTransport next, BatchReceiverOptions? options = null, TimeProvider? timeProvider = null, ILogger<BatchReceiver>? logger = null)
    {
        Receiver = new BatchReceiver(next, options, timeProvider, logger);
        _next = next;
    }

    /// <summary>The receiver, for its counters.</summary>
    public BatchReceiver Receiver { get; }

    /// <inheritdoc/>
    public bool SendsWithoutBlocking => _next.SendsWithoutBlocking;

    /// <inheritdoc/>
    public int MaxMessageBytes => _next.MaxMessageBytes;

    /// <inheritdoc/>
    public int MaxBatchBytes => _next.MaxBatchBytes;

    /// <inheritdoc/>
    public int MaxSendBytes => _next.MaxSendBytes;

    /// <inheritdoc/>
    public string? LimitingSetting => _next.LimitingSetting;

    /// <inheritdoc/>
    /// <exception cref="ObjectDisposedException">The transport is disposed.</exception>
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        await _turn.WaitAsync(cancellationToken).ConfigureAwait(false);
        try
        {
            ObjectDisposedException.ThrowIf(_isDisposed, this);
            for (var left = batches; !left.IsEmpty;)
            {
                var count = CountOfOneProducer(left.Span);
                _frame.ResetWrittenCount();
                FrameWriter.Write(_frame, left.Span[..count], BatchKitTracing.RecordedContext);
                await Receiver.ReceiveAsync(_frame.WrittenMemory, cancellationToken).ConfigureAwait(false);
                left = left[count..];
            }
        }
        finally
        {
            if (_frame.Capacity > MaxKeptFrameBytes)
                _frame = new ArrayBufferWriter<byte>();
            else
                _frame.ResetWrittenCount();
            _turn.Release();
        }
    }

    /// <summary>Waits for the send under way; later sends throw.</summary>
    public async ValueTask DisposeAsync()
    {
        await _turn.WaitAsync().ConfigureAwait(false);
        _isDisposed = true;
        _turn.Release();
    }

    /// <summary>Makes later sends throw, and does not wait for the send under way.</summary>
    public void Dispose() => _isDisposed = true;

    // A frame has one producer; a send of an outbox may have several.
    private static int CountOfOneProducer(ReadOnlySpan<MessageBatch> batches)
    {
        var count = 1;
        while (count < batches.Length && batches[count].Producer == batches[0].Producer)
            count++;
        return count;
    }
}
