using BatchKit.Transports;

namespace BatchKit.Postgres.Receiving;

/// <summary>Looks after the queue once a poll interval, and when something falls due: gives back what ended claims held, makes ready what is due, and wakes a worker when there is work.</summary>
internal sealed class Upkeep(ReceiverParts parts)
{
    // What falls due one by one is not looked for one by one.
    private static readonly TimeSpan LeastPause = TimeSpan.FromMilliseconds(10);

    private readonly RetrySchedule _schedule = new(parts.Options.ReconnectDelay, parts.Options.MaxReconnectDelay);

    public async Task RunAsync()
    {
        await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        var failures = 0;
        while (!parts.Stop.Stopping.IsCancellationRequested)
        {
            TimeSpan pause;
            try
            {
                pause = await LookAsync().ConfigureAwait(false);
                failures = 0;
                parts.Health.Succeeded(this);
            }
            catch (Exception) when (parts.Stop.Stopping.IsCancellationRequested)
            {
                break;
            }
            catch (Exception exception)
            {
                parts.Health.Failed(this, exception);
                pause = _schedule.DelayAfter(++failures, Random.Shared);
            }

            await parts.UpkeepAlarm.WaitAsync(pause, parts.Stop.Stopping).ConfigureAwait(false);
        }

        parts.Health.Forget(this);
    }

    private async Task<TimeSpan> LookAsync()
    {
        var report = await parts.CareConnection.UseAsync(parts.Store.UpkeepAsync, parts.Stop.Stopping).ConfigureAwait(false);
        if (report.Returned + report.Buried > 0)
        {
            parts.Counters.Buried(report.Buried);
            Log.ClaimsEnded(parts.Logger, parts.Options.Queue, report.Returned, report.Buried);
        }

        if (report.HasWork)
            parts.Signal.Wake();
        // One look gives back only so many, and a fleet that crashed leaves more.
        if (report.Returned + report.Buried > 0)
            return LeastPause;
        var pause = report.NextDue is { } due && due < parts.Options.PollInterval ? due : parts.Options.PollInterval;
        return pause > LeastPause ? pause : LeastPause;
    }
}

/// <summary>A wait that others may shorten. One waits, any thread may ask.</summary>
internal sealed class Alarm(TimeProvider timeProvider)
{
    // Guards what is below.
    private readonly Lock _lock = new();
    private TaskCompletionSource _asked = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private long _due = long.MaxValue;

    /// <summary>The wait under way, or the next one, ends by then at the latest.</summary>
    public void RingWithin(TimeSpan time)
    {
        var due = timeProvider.GetTimestamp() + (long)(time.TotalSeconds * timeProvider.TimestampFrequency);
        TaskCompletionSource asked;
        lock (_lock)
        {
            if (due >= _due)
                return;
            _due = due;
            asked = _asked;
        }

        asked.TrySetResult();
    }

    public async Task WaitAsync(TimeSpan longest, CancellationToken cancellationToken)
    {
        RingWithin(longest);
        while (!cancellationToken.IsCancellationRequested && Left(out var asked) is { } left)
        {
            using var ending = CancellationTokenSource.CreateLinkedTokenSource(cancellationToken);
            await Task.WhenAny(asked, Task.Delay(left, timeProvider, ending.Token)).ConfigureAwait(false);
            await ending.CancelAsync().ConfigureAwait(false);
        }
    }

    // Null when the time has come, which forgets it.
    private TimeSpan? Left(out Task asked)
    {
        lock (_lock)
        {
            if (_asked.Task.IsCompleted)
                _asked = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            asked = _asked.Task;
            var now = timeProvider.GetTimestamp();
            if (now < _due)
                return timeProvider.GetElapsedTime(now, _due);
            _due = long.MaxValue;
            return null;
        }
    }
}
