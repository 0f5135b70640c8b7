using BatchKit.Diagnostics;
using BatchKit.Postgres.Schema;
using BatchKit.Transports;

namespace BatchKit.Postgres.Receiving;

/// <summary>Runs upkeep once each poll interval, and when a message becomes due: gives back the messages of ended claims, makes due messages ready, and wakes a worker when there is work.</summary>
internal sealed class Upkeep(ReceiverParts parts, QueueEntry queue)
{
    /// <summary>How soon it looks when messages failed, or a notification led to none: its message may be delayed, or another worker was faster. Not at once, because many wakes find no work.</summary>
    public static readonly TimeSpan Soon = TimeSpan.FromMilliseconds(50);

    /// <summary>How soon it looks when all messages that were found are completed: others that were sent with them may be delayed. By default it polls as often.</summary>
    public static readonly TimeSpan Later = TimeSpan.FromSeconds(1);

    // Messages that become due shortly after one another are found together.
    private static readonly TimeSpan LeastPause = TimeSpan.FromMilliseconds(10);

    private readonly TaskCompletionSource _looked = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly LogThrottle _throttle = new(parts.TimeProvider);
    private readonly RetrySchedule _schedule = new(parts.Options.ReconnectDelay, parts.Options.MaxReconnectDelay);

    /// <summary>Completes when it has looked for work for the first time.</summary>
    public Task Looked => _looked.Task;

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
                if (parts is { Depth: { } depth, Metrics.IsObservingDepth: true })
                    await depth.ReadWhenOldAsync(parts.Connections.Care, queue, parts.Stop.Stopping).ConfigureAwait(false);
                failures = 0;
                parts.Health.Succeeded(this);
            }
            catch (Exception) when (parts.Stop.Stopping.IsCancellationRequested)
            {
                break;
            }
            catch (Exception exception)
            {
                parts.Failed(this, exception);
                pause = _schedule.DelayAfter(++failures, Random.Shared);
            }

            parts.Dead?.Tell();
            if (parts.SlowHandlers is { } slow && _throttle.TryBegin(2640, string.Empty, amount: 1, out _))
                Log.HandlersSlow(parts.Logger, parts.Options.Queue, slow);
            await parts.UpkeepAlarm.WaitAsync(pause, parts.Stop.Stopping).ConfigureAwait(false);
        }

        parts.Health.Forget(this);
    }

    private async Task<TimeSpan> LookAsync()
    {
        var report = await parts.WatchAsync(this, parts.Connections.Care.UseAsync(parts.Store.UpkeepAsync, parts.Stop.Stopping)).ConfigureAwait(false);
        if (report.Returned + report.Buried > 0)
        {
            parts.Counters.Buried(report.Buried);
            if (report.Buried > 0)
                parts.Dead?.Died(report.Buried, "The claims of their last attempts ended: workers crashed, or were paused.");
            Log.ClaimsEnded(parts.Logger, parts.Options.Queue, report.Returned, report.Buried);
        }

        if (report.HasWork)
            parts.Signal.Wake();
        _looked.TrySetResult();
        // One upkeep gives back a limited number of claims. Many crashed workers leave more, so the next upkeep follows soon.
        if (report.Returned + report.Buried > 0)
            return LeastPause;
        var pause = report.NextDue is { } due && due < parts.Options.PollInterval ? due : parts.Options.PollInterval;
        return pause > LeastPause ? pause : LeastPause;
    }
}

/// <summary>A wait that any thread may shorten. One task at a time waits.</summary>
internal sealed class Alarm(TimeProvider timeProvider)
{
    // Guards the fields below.
    private readonly Lock _lock = new();
    private TaskCompletionSource _asked = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private long _due = long.MaxValue;

    /// <summary>Ends the current wait, or the next one, within this time.</summary>
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
            await Task.WhenAny(asked, Task.Delay(WholeMilliseconds.Of(left), timeProvider, ending.Token)).ConfigureAwait(false);
            await ending.CancelAsync().ConfigureAwait(false);
        }
    }

    // Null when the time is over; the due time is then reset.
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
