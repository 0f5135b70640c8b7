using BatchKit.Postgres.Frames;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.Postgres.Outbox;

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
