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
