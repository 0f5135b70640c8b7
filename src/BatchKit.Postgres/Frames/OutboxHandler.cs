using System.Diagnostics;
using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.Postgres.Frames;

/// <summary>Forwards the stored batches of a claim in one send. It retries unacknowledged batches before newer ones, so that the order is kept.</summary>
/// <remarks>
/// When a send keeps failing it is halved, until a batch fails alone. Its row then waits, and those behind it of the same handles and producers, while the others leave; it is retried in each later claim. Nothing of
/// its producer may pass it, because a receiver would drop it as a repeat then.
/// </remarks>
internal sealed class OutboxHandler(IBatchTransport inner, PostgresOutboxOptions options, TimeProvider timeProvider, ILogger logger, CancellationToken stopping) : IMessageHandler<QueueMessage>
{
    // The first failures are mostly the connection's. A buffer's partition halves its sends after as many.
    private const int FailuresBefore = 4;

    // The time that a transport gets to notice that its token was cancelled.
    private static readonly TimeSpan Grace = TimeSpan.FromMilliseconds(500);

    // Between two sends that follow each other so closely, a broker that was down hardly comes back.
    private static readonly TimeSpan Shortly = TimeSpan.FromSeconds(1);

    private readonly RetrySchedule _schedule = FailingRows.Schedule;

    private readonly ObserverFaults _faults = GuardedLogger.Of(logger).Faults;
    private readonly HandlerTurns _turns = new();
    private readonly NewerFrames _newer = new(timeProvider, logger);
    private readonly FailingRows _failing = new(timeProvider);
    private HashSet<(ProducerId Producer, long Number)> _arrived = [];
    private int _consecutiveFailures;
    private volatile string? _fault;

    private string Limit => $"{options.SendTimeout} ({nameof(PostgresOutboxOptions.SendTimeout)})";

    /// <summary>Why the inner transport does not accept batches; null while it does.</summary>
    public string? Fault => _fault;

    /// <summary>Which row waits because its sends fail, while others leave; null when none does.</summary>
    public string? Degradation => _failing.Description;

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
            frames.Add(message, _arrived);
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
        finally
        {
            _arrived = frames.Arrived;
        }
    }

    private async Task ForwardAsync(StoredFrames frames, CancellationToken cancellationToken)
    {
        // The inner transport writes this span's trace into its own frames.
        using var span = frames.Count == 0 || !BatchKitTracing.IsListening ? null : DeliverySpan.Start("postgresql", options.Name, frames.PendingMessages, frames.Traces, _faults);
        var all = frames.Count;
        _failing.KeepThoseOf(frames.Rows);
        frames.SetAside(_failing.Contains);
        await ForwardFreeAsync(frames, span, cancellationToken).ConfigureAwait(false);
        foreach (var row in _failing.DueOf(frames.Rows))
            await RetryAsync(frames, row, cancellationToken).ConfigureAwait(false);
        // What still waits is claimed again, together with what was stored meanwhile.
        if (all > 0 && frames.Count == all)
            await DelayAsync(WholeMilliseconds.Of(_failing.TimeToNext()), cancellationToken).ConfigureAwait(false);
    }

    private async Task ForwardFreeAsync(StoredFrames frames, DeliverySpan? span, CancellationToken cancellationToken)
    {
        // Among so many of the first batches must be one for which a send keeps failing.
        var suspects = 0;
        var isProbe = _failing.HasUnproven;
        while (frames.Free > 0)
        {
            var offered = frames.CountNext(isProbe ? 1 : suspects == 0 ? int.MaxValue : Math.Max(1, suspects / 2), inner.MaxSendBytes);
            var (failure, settled) = await TrySendAsync(frames, first: 0, offered, cancellationToken).ConfigureAwait(false);
            if (frames.HasRefusals && failure is not null)
                span?.Fail(failure);
            if (settled > 0)
                (suspects, isProbe) = (Math.Max(0, suspects - settled), false);
            if (failure is null || settled == offered)
                continue;
            var hasFailedOften = suspects > 0 || _consecutiveFailures + 1 >= FailuresBefore;
            if (offered == 1 && hasFailedOften && _failing.TryAdd(frames.RowOf(0), failure))
            {
                frames.SetAside(_failing.Contains);
                (suspects, isProbe) = (0, true);
                continue;
            }

            var delay = _schedule.DelayAfter(_consecutiveFailures + 1, Random.Shared);
            CountFailure(offered - settled, failure, delay);
            await DelayAsync(delay, cancellationToken).ConfigureAwait(false);
            // The transport seems to accept nothing.
            if (isProbe)
                return;
            suspects = hasFailedOften ? offered - settled : 0;
        }
    }

    // Retries a row that failed alone.
    private async Task RetryAsync(StoredFrames frames, StoredRow row, CancellationToken cancellationToken)
    {
        var began = timeProvider.GetTimestamp();
        var (failure, settled) = await TrySendAsync(frames, frames.IndexOf(row), count: 1, cancellationToken).ConfigureAwait(false);
        if (settled > 0)
        {
            _failing.Remove(row);
            return;
        }

        var isCause = _failing.IsOverdue(row) && _failing.HasAccepted(row);
        var (attempts, delay) = _failing.Failed(row, failure!);
        if (_failing.IsProven(row))
            Log.ForwardingFailed(logger, options.Name, 1, attempts, delay, failure!);
        else
            CountFailure(batches: 1, failure!, delay);
        if (_failing.IsOverdue(row) && !isCause && timeProvider.GetElapsedTime(began) < Shortly)
            isCause = await PassesAsync(frames, row, cancellationToken).ConfigureAwait(false);
        if (!isCause)
            return;
        Log.StoredRowGivenUp(logger, options.Name, row.Id, FailingRows.Limit, failure!);
        frames.Refuse(row, FailureText.MessageOf(failure!));
        _failing.Remove(row);
    }

    // True when the transport accepts a batch that waits only for this row: the order allows that now, because the row will not be sent any more.
    private async Task<bool> PassesAsync(StoredFrames frames, StoredRow row, CancellationToken cancellationToken)
    {
        var next = frames.IndexBehind(row, _failing.Contains);
        return next >= 0 && (await TrySendAsync(frames, next, count: 1, cancellationToken).ConfigureAwait(false)).Settled > 0;
    }

    private async Task<(Exception? Failure, int Settled)> TrySendAsync(StoredFrames frames, int first, int count, CancellationToken cancellationToken)
    {
        using var limit = new TimeLimit(options.SendTimeout, timeProvider, cancellationToken);
        var before = frames.Count;
        Exception? failure = null;
        try
        {
            await SendAsync(frames, first, count, limit).ConfigureAwait(false);
            frames.Settle(first, count, exception: null);
        }
        catch (BatchSendException exception)
        {
            failure = exception;
            var refused = frames.Settle(first, count, exception);
            if (refused > 0)
                Log.StoredBatchesRefused(logger, options.Name, refused, exception);
        }
        catch (Exception exception)
        {
            cancellationToken.ThrowIfCancellationRequested();
            failure = limit.IsOver && exception is not TimeoutException ? new TimeoutException($"It did not accept them within {Limit}.", exception) : exception;
        }

        if (frames.Count < before)
            Recover();
        return (failure, before - frames.Count);
    }

    // A send that does not end when it is cancelled is left to itself, with its batches.
    private async Task SendAsync(StoredFrames frames, int first, int count, TimeLimit limit)
    {
        var sending = inner.SendAsync(frames.Pending.Slice(first, count), limit.Token).AsTask();
        await sending.WaitAsync(limit.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (!sending.IsCompleted)
            await sending.WaitAsync(Grace, timeProvider).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (!sending.IsCompleted)
        {
            frames.Abandon(sending);
            throw new TimeoutException($"It did not accept them within {Limit}, and did not end when its token was cancelled.");
        }

        await sending.ConfigureAwait(false);
    }

    private void CountFailure(int batches, Exception failure, TimeSpan delay)
    {
        _consecutiveFailures++;
        _fault = $"The transport behind the outbox failed {_consecutiveFailures} consecutive times: {FailureText.MessageOf(failure)}";
        Log.ForwardingFailed(logger, options.Name, batches, _consecutiveFailures, delay, failure);
    }

    private async Task DelayAsync(TimeSpan delay, CancellationToken cancellationToken)
    {
        using var ending = CancellationTokenSource.CreateLinkedTokenSource(stopping, cancellationToken);
        await Task.Delay(delay, timeProvider, ending.Token).ConfigureAwait(false);
    }

    private void Recover()
    {
        _failing.Prove();
        if (_consecutiveFailures == 0)
            return;
        Log.ForwardingWorks(logger, options.Name, _consecutiveFailures);
        _consecutiveFailures = 0;
        _fault = null;
    }
}
