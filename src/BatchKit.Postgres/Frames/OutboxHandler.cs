using System.Diagnostics;
using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.Postgres.Frames;

/// <summary>Forwards the stored batches of a claim in one send. It retries unacknowledged batches before newer ones, so that the order is kept.</summary>
internal sealed class OutboxHandler(IBatchTransport inner, PostgresOutboxOptions options, TimeProvider timeProvider, ILogger logger, CancellationToken stopping) : IMessageHandler<QueueMessage>
{
    private readonly RetrySchedule _schedule = new(TimeSpan.FromMilliseconds(100), TimeSpan.FromSeconds(5));

    private readonly ObserverFaults _faults = GuardedLogger.Of(logger).Faults;
    private readonly HandlerTurns _turns = new();
    private readonly NewerFrames _newer = new(timeProvider, logger);
    private int _consecutiveFailures;
    private volatile string? _fault;

    /// <summary>Why the inner transport does not accept batches; null while it does.</summary>
    public string? Fault => _fault;

    public async ValueTask HandleAsync(IReadOnlyList<QueueMessage> batch, CancellationToken cancellationToken)
    {
        foreach (var message in batch)
            message.Release();
        var (earlier, ended) = _turns.Join();
        using var frames = new StoredFrames();
        try
        {
            await earlier.WaitAsync(cancellationToken).ConfigureAwait(false);
            for (var index = 0; index < batch.Count && !_newer.TryLeave(batch, index); index++)
                Read(frames, batch[index]);
            await ForwardOrGiveBackAsync(frames, cancellationToken).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (cancellationToken.IsCancellationRequested || stopping.IsCancellationRequested)
        {
            // Rows that are not settled yet return to the queue unchanged.
        }
        finally
        {
            ended.SetResult();
        }
    }

    private void Read(StoredFrames frames, QueueMessage message)
    {
        try
        {
            frames.Add(message);
        }
        catch (FrameFormatException exception)
        {
            Log.StoredFrameMalformed(logger, options.Name, message.Id, FailureText.MessageOf(exception));
            message.Refuse(FailureText.MessageOf(exception));
        }
    }

    private async Task ForwardOrGiveBackAsync(StoredFrames frames, CancellationToken cancellationToken)
    {
        try
        {
            await ForwardAsync(frames, cancellationToken).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            // Whoever claims the rows next, perhaps another process, knows whether they are accepted.
            _fault = null;
            throw;
        }
    }

    private async Task ForwardAsync(StoredFrames frames, CancellationToken cancellationToken)
    {
        // The inner transport writes this span's trace into its own frames.
        using var span = frames.Pending.IsEmpty || !BatchKitTracing.IsListening ? null : DeliverySpan.Start("postgresql", options.Name, frames.PendingMessages, frames.Traces, _faults);
        while (frames.Pending.Length > 0)
        {
            var before = frames.Pending.Length;
            var failure = await TrySendAsync(frames, cancellationToken).ConfigureAwait(false);
            if (frames.Pending.Length < before)
                Recover();
            if (frames.HasRefusals && failure is not null)
                span?.Fail(failure);
            if (failure is not null && frames.Pending.Length > 0)
                await PauseAsync(frames, failure, cancellationToken).ConfigureAwait(false);
        }
    }

    private async Task<Exception?> TrySendAsync(StoredFrames frames, CancellationToken cancellationToken)
    {
        using var limit = new TimeLimit(options.SendTimeout, timeProvider, cancellationToken);
        try
        {
            await inner.SendAsync(frames.Pending, limit.Token).ConfigureAwait(false);
            frames.AcknowledgeAll();
            return null;
        }
        catch (BatchSendException exception)
        {
            var refused = frames.Settle(exception);
            if (refused > 0)
                Log.StoredBatchesRefused(logger, options.Name, refused, exception);
            return exception;
        }
        catch (Exception exception)
        {
            cancellationToken.ThrowIfCancellationRequested();
            return limit.IsOver
                ? new TimeoutException($"It did not accept them within {options.SendTimeout} ({nameof(PostgresOutboxOptions.SendTimeout)}).", exception)
                : exception;
        }
    }

    private async Task PauseAsync(StoredFrames frames, Exception failure, CancellationToken cancellationToken)
    {
        _consecutiveFailures++;
        _fault = $"The transport behind the outbox failed {_consecutiveFailures} consecutive times: {FailureText.MessageOf(failure)}";
        var delay = _schedule.DelayAfter(_consecutiveFailures, Random.Shared);
        Log.ForwardingFailed(logger, options.Name, frames.Pending.Length, _consecutiveFailures, delay, failure);
        using var ending = CancellationTokenSource.CreateLinkedTokenSource(stopping, cancellationToken);
        await Task.Delay(delay, timeProvider, ending.Token).ConfigureAwait(false);
    }

    private void Recover()
    {
        if (_consecutiveFailures == 0)
            return;
        Log.ForwardingWorks(logger, options.Name, _consecutiveFailures);
        _consecutiveFailures = 0;
        _fault = null;
    }
}

/// <summary>The frames of a claim's rows, and which of their batches are still pending; marks a row when all its batches are settled. Not thread-safe.</summary>
internal sealed class StoredFrames : IDisposable
{
    private readonly List<ReceivedFrame> _frames = [];
    private readonly List<StoredRow> _rows = [];

    // Parallel arrays in the order of the rows: a batch, and the row that it came from.
    private MessageBatch[] _pending = [];
    private StoredRow[] _rowsOfPending = [];
    private int _count;

    public ReadOnlyMemory<MessageBatch> Pending => _pending.AsMemory(0, _count);

    public int PendingMessages => _pending.Take(_count).Sum(static batch => batch.Count);

    /// <summary>The spans of the sends that stored the frames.</summary>
    public IEnumerable<ActivityContext> Traces => _frames.Select(static frame => frame.Trace);

    /// <summary>True when the inner transport refused batches of the last send.</summary>
    public bool HasRefusals { get; private set; }

    /// <summary>Adds a row's batches.</summary>
    /// <exception cref="FrameFormatException">The row is not a frame.</exception>
    public void Add(QueueMessage message)
    {
        var frame = FrameReader.Read(ReplayedFrame.Read(message));
        _frames.Add(frame);
        var batches = frame.Batches.Span;
        var row = new StoredRow(message, batches.Length);
        _rows.Add(row);
        if (_count + batches.Length > _pending.Length)
        {
            var capacity = Math.Max(_count + batches.Length, 2 * _pending.Length);
            Array.Resize(ref _pending, capacity);
            Array.Resize(ref _rowsOfPending, capacity);
        }

        batches.CopyTo(_pending.AsSpan(_count));
        _rowsOfPending.AsSpan(_count, batches.Length).Fill(row);
        _count += batches.Length;
    }

    public void AcknowledgeAll()
    {
        for (var index = 0; index < _count; index++)
            _rowsOfPending[index].Acknowledge();
        _count = 0;
    }

    /// <summary>Removes the batches with a final outcome, and returns how many of them were refused, as a whole or in part.</summary>
    public int Settle(BatchSendException exception)
    {
        var refusedInPart = exception.RefusedMessages.Select(static refusal => refusal.Batch).ToHashSet();
        var (kept, refused) = (0, 0);
        for (var index = 0; index < _count; index++)
        {
            switch (index < exception.Outcomes.Length ? exception.Outcomes[index] : BatchOutcome.Unacknowledged)
            {
                case BatchOutcome.Acknowledged when !refusedInPart.Contains(index):
                    _rowsOfPending[index].Acknowledge();
                    break;
                case BatchOutcome.Acknowledged or BatchOutcome.Refused:
                    _rowsOfPending[index].Refuse(FailureText.MessageOf(exception));
                    refused++;
                    break;
                default:
                    _pending[kept] = _pending[index];
                    _rowsOfPending[kept++] = _rowsOfPending[index];
                    break;
            }
        }

        _count = kept;
        HasRefusals = refused > 0;
        return refused;
    }

    public void Dispose()
    {
        foreach (var frame in _frames)
            frame.Dispose();
    }
}

/// <summary>A row of the outbox. It is completed when all its batches are acknowledged. If one was refused, it is moved to the dead table, where an operator can see it.</summary>
internal sealed class StoredRow(QueueMessage message, int batches)
{
    private int _unsettled = batches;
    private string? _refusal;

    public void Acknowledge() => Settle();

    public void Refuse(string reason)
    {
        _refusal = reason;
        Settle();
    }

    private void Settle()
    {
        if (--_unsettled > 0)
            return;
        if (_refusal is null)
            message.Complete();
        else
            message.Refuse(_refusal);
    }
}
