using SensorHub.Hosting;

namespace SensorHub.Publishing;

/// <summary>The game's loop: every 8 ms it publishes as many changes as are due, which is 160 at 20,000 a second.</summary>
internal sealed class TickLoop(IChangePublisher publisher, HubOptions options, RunClock clock)
{
    private static readonly TimeSpan Tick = TimeSpan.FromMilliseconds(8);

    // A loop that is further behind skips the changes that are due, as a game does.
    private static readonly TimeSpan LongestBehind = TimeSpan.FromMilliseconds(250);

    private long _skipped;

    /// <summary>The number of changes that were due and were skipped, because the loop was behind. Any thread may read it.</summary>
    public long Skipped => Volatile.Read(ref _skipped);

    /// <summary>Runs until the token is cancelled or the duration has passed.</summary>
    public async Task RunAsync(CancellationToken cancellationToken)
    {
        using var timer = new PeriodicTimer(Tick);
        using var ending = CancellationTokenSource.CreateLinkedTokenSource(cancellationToken);
        if (options.Duration is { } duration)
            ending.CancelAfter(duration);
        var most = Math.Max(1, (long)(options.Rate * LongestBehind.TotalSeconds));
        var (began, done) = (clock.Now, 0L);
        while (await WaitAsync(timer, cancellationToken))
        {
            var elapsed = clock.Now - began;
            var due = (long)(options.Rate * Min(elapsed, options.Duration).TotalSeconds) - done;
            var made = await publisher.PublishAsync((int)Math.Min(due, most), ending.Token);
            Volatile.Write(ref _skipped, _skipped + due - made);
            done += due;
            if (elapsed >= options.Duration)
                return;
        }
    }

    private static TimeSpan Min(TimeSpan elapsed, TimeSpan? duration) => elapsed < duration || duration is null ? elapsed : duration.Value;

    private static async ValueTask<bool> WaitAsync(PeriodicTimer timer, CancellationToken cancellationToken)
    {
        try
        {
            return await timer.WaitForNextTickAsync(cancellationToken);
        }
        catch (OperationCanceledException)
        {
            return false;
        }
    }
}
