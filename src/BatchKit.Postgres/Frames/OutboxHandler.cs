using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.Postgres.Frames;

/// <summary>Sends the stored batches of a claim on, all of them in one send, and again in place what the next hop has not acknowledged, so that nothing overtakes.</summary>
internal sealed class OutboxHandler(IBatchTransport inner, PostgresOutboxOptions options, TimeProvider timeProvider, ILogger logger, CancellationToken stopping) : IQueueHandler
{
    private readonly RetrySchedule _schedule = new(TimeSpan.FromMilliseconds(100), TimeSpan.FromSeconds(5));

    private readonly HandlerTurns _turns = new();
    private int _failuresInARow;
    private volatile string? _fault;

    /// <summary>Why the next hop does not take what is sent on; null while it does.</summary>
    public string? Fault => _fault;

    public async ValueTask HandleAsync(QueueBatch batch, CancellationToken cancellationToken)
    {
        foreach (var message in batch)
            message.Release();
        var (earlier, ended) = _turns.Join();
        using var frames = new StoredFrames();
        try
        {
            await earlier.WaitAsync(cancellationToken).ConfigureAwait(false);
            foreach (var message in batch)
                Read(frames, message);
            await SendOnAsync(frames, cancellationToken).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (cancellationToken.IsCancellationRequested || stopping.IsCancellationRequested)
        {
            // What is not settled by now goes back as it was.
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
            Log.StoredFrameMalformed(logger, options.Name, message.Id, exception.Message);
            message.Bury(exception.Message);
        }
    }

    private async Task SendOnAsync(StoredFrames frames, CancellationToken cancellationToken)
    {
        while (frames.Pending.Length > 0)
        {
            var before = frames.Pending.Length;
            var failure = await TrySendAsync(frames, cancellationToken).ConfigureAwait(false);
            if (frames.Pending.Length < before)
                Recover();
            if (failure is not null && frames.Pending.Length > 0)
                await PauseAsync(frames, failure, cancellationToken).ConfigureAwait(false);
        }
    }

    private async Task<Exception?> TrySendAsync(StoredFrames frames, CancellationToken cancellationToken)
    {
        using var late = new CancellationTokenSource(options.SendTimeout, timeProvider);
        using var ending = CancellationTokenSource.CreateLinkedTokenSource(late.Token, cancellationToken);
        try
        {
            await inner.SendAsync(frames.Pending, ending.Token).ConfigureAwait(false);
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
            return late.IsCancellationRequested
                ? new TimeoutException($"It did not take them within {options.SendTimeout} ({nameof(PostgresOutboxOptions.SendTimeout)}).", exception)
                : exception;
        }
    }

    private async Task PauseAsync(StoredFrames frames, Exception failure, CancellationToken cancellationToken)
    {
        _failuresInARow++;
        _fault = $"The transport behind the outbox failed {_failuresInARow} times in a row: {failure.Message}";
        var delay = _schedule.DelayAfter(_failuresInARow, Random.Shared);
        Log.SendingOnFailed(logger, options.Name, frames.Pending.Length, _failuresInARow, delay, failure);
        using var ending = CancellationTokenSource.CreateLinkedTokenSource(stopping, cancellationToken);
        await Task.Delay(delay, timeProvider, ending.Token).ConfigureAwait(false);
    }

    private void Recover()
    {
        if (_failuresInARow == 0)
            return;
        Log.SendingOnAgain(logger, options.Name, _failuresInARow);
        _failuresInARow = 0;
        _fault = null;
    }
}

/// <summary>The frames of a claim's rows, which of their batches the next hop still has to take, and what that means for each row. One thread at a time.</summary>
internal sealed class StoredFrames : IDisposable
{
    private readonly List<ReceivedFrame> _frames = [];
    private readonly List<StoredRow> _rows = [];

    // Side by side, in the order of the rows: a batch and the row that it came from.
    private MessageBatch[] _pending = [];
    private StoredRow[] _rowsOfPending = [];
    private int _count;

    public ReadOnlyMemory<MessageBatch> Pending => _pending.AsMemory(0, _count);

    /// <summary>Takes in a row's batches.</summary>
    /// <exception cref="FrameFormatException">It holds no frame.</exception>
    public void Add(QueueMessage message)
    {
        var frame = FrameReader.Read(message.Payload);
        _frames.Add(frame);
        var batches = frame.Batches.Span;
        var row = new StoredRow(message, batches.Length);
        _rows.Add(row);
        if (_count + batches.Length > _pending.Length)
        {
            var room = Math.Max(_count + batches.Length, 2 * _pending.Length);
            Array.Resize(ref _pending, room);
            Array.Resize(ref _rowsOfPending, room);
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

    /// <summary>Takes out what has a final outcome, and says how many are refused.</summary>
    public int Settle(BatchSendException exception)
    {
        var (kept, refused) = (0, 0);
        for (var index = 0; index < _count; index++)
        {
            switch (index < exception.Outcomes.Length ? exception.Outcomes[index] : BatchOutcome.Unacknowledged)
            {
                case BatchOutcome.Acknowledged:
                    _rowsOfPending[index].Acknowledge();
                    break;
                case BatchOutcome.Refused:
                    _rowsOfPending[index].Refuse(exception.Message);
                    refused++;
                    break;
                default:
                    _pending[kept] = _pending[index];
                    _rowsOfPending[kept++] = _rowsOfPending[index];
                    break;
            }
        }

        _count = kept;
        return refused;
    }

    public void Dispose()
    {
        foreach (var frame in _frames)
            frame.Dispose();
    }
}

/// <summary>A row with its frame: done when all its batches are acknowledged; dead, so that it can be looked at, when one is refused for good. Until then it goes back as it was.</summary>
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
            message.Bury(_refusal);
    }
}
