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
    private readonly int _maxFrameBytes;
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
        _maxFrameBytes = (options?.Limits ?? FrameLimits.Shared).MaxFrameBytes;
    }

    /// <summary>The receiver, for its counters.</summary>
    public BatchReceiver Receiver { get; }

    /// <inheritdoc/>
    public bool SendsWithoutBlocking => _next.SendsWithoutBlocking;

    /// <inheritdoc/>
    public int MaxMessageBytes => Math.Min(_next.MaxMessageBytes, MaxBatchBytes);

    /// <inheritdoc/>
    public int MaxBatchBytes => Math.Min(_next.MaxBatchBytes, MaxFramedBytes);

    /// <inheritdoc/>
    public int MaxSendBytes => _next.MaxSendBytes;

    /// <inheritdoc/>
    public string? LimitingSetting => _next.MaxMessageBytes <= MaxFramedBytes
        ? _next.LimitingSetting
        : $"{nameof(BatchReceiverOptions)}.{nameof(BatchReceiverOptions.Limits)}.{nameof(FrameLimits.MaxFrameBytes)}";

    /// <inheritdoc/>
    /// <exception cref="ObjectDisposedException">The transport is disposed.</exception>
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        await _turn.WaitAsync(cancellationToken).ConfigureAwait(false);
        try
        {
            ObjectDisposedException.ThrowIf(_isDisposed, this);
            await DeliverAsync(batches, cancellationToken).ConfigureAwait(false);
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

    private int MaxFramedBytes => Math.Max(0, _maxFrameBytes - FrameWriter.OverheadBytes);

    // What does not fit a frame is divided. A batch that the receiver can't read alone would hold up all others for ever.
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    private async ValueTask DeliverAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        BatchOutcome[]? outcomes = null;
        Exception? refusal = null;
        for (var (first, most) = (0, batches.Length); first < batches.Length;)
        {
            var count = Math.Min(most, CountOfOneProducer(batches.Span[first..]));
            _frame.ResetWrittenCount();
            FrameWriter.Write(_frame, batches.Span.Slice(first, count), BatchKitTracing.RecordedContext);
            if (_frame.WrittenCount > _maxFrameBytes && count > 1)
            {
                most = count / 2;
                continue;
            }

            try
            {
                await Receiver.ReceiveAsync(_frame.WrittenMemory, cancellationToken).ConfigureAwait(false);
            }
            catch (FrameFormatException) when (count > 1)
            {
                most = count / 2;
                continue;
            }
            catch (FrameFormatException exception)
            {
                outcomes ??= [.. Enumerable.Repeat(BatchOutcome.Acknowledged, batches.Length)];
                (outcomes[first], refusal) = (BatchOutcome.Refused, exception);
            }

            first += count;
        }

        if (outcomes is not null)
            throw new BatchSendException([.. outcomes], FailureText.MessageOf(refusal!), refusal);
    }

    // A frame has one producer; a send of an outbox may have several.
    private static int CountOfOneProducer(ReadOnlySpan<MessageBatch> batches)
    {
        var count = 1;
        while (count < batches.Length && batches[count].Producer == batches[0].Producer)
            count++;
        return count;
    }
}
