using BatchKit.Transports;

namespace BatchKit.Batches;

/// <summary>A buffer's time. The coarse stamp counts the watch's ticks: it is free to read, while the exact clock takes 24 ns.</summary>
/// <remarks>While the process stands still, as under SIGSTOP, coarse time goes on by one tick and a half: what it slept through is no reason to give a message up, or to close a scope.</remarks>
internal sealed class BufferClock(TimeProvider timeProvider)
{
    private static readonly TimeSpan EndLimit = TimeSpan.FromSeconds(5);

    private long _tickedAt = timeProvider.GetTimestamp();
    private long _coarse;

    public TimeProvider TimeProvider => timeProvider;

    public long Now => timeProvider.GetTimestamp();

    public long Coarse => Volatile.Read(ref _coarse);

    /// <param name="interval">The time between two ticks.</param>
    public void Tick(TimeSpan interval)
    {
        var now = timeProvider.GetTimestamp();
        var longest = After(0, 1.5 * interval);
        Interlocked.Add(ref _coarse, Math.Min(now - Interlocked.Exchange(ref _tickedAt, now), longest));
    }

    /// <summary>How long ago a coarse stamp was taken, give or take one tick.</summary>
    public TimeSpan AgeOf(long coarseStamp) => timeProvider.GetElapsedTime(coarseStamp, Coarse);

    public TimeSpan ElapsedSince(long stamp) => timeProvider.GetElapsedTime(stamp);

    /// <summary>The stamp of a moment in the future.</summary>
    public long After(TimeSpan time) => After(Now, time);

    public long After(long stamp, TimeSpan time) => stamp + (long)(time.TotalSeconds * timeProvider.TimestampFrequency);

    public TimeSpan Until(long stamp) => timeProvider.GetElapsedTime(Now, stamp);

    /// <summary>Creates a timer that is not set. It does not capture the caller's context, which would live as long as the timer.</summary>
    public ITimer CreateTimer(TimerCallback callback, object state) => CallerContext.CreateTimer(timeProvider, callback, state);

    public ValueTask EndAsync(ITimer timer) => EndAsync(timer, timeProvider);

    /// <summary>Disposes a timer and waits for its callback, but not for ever: the callback may be inside foreign code that hangs.</summary>
    public static async ValueTask EndAsync(ITimer timer, TimeProvider timeProvider) =>
        await timer.DisposeAsync().AsTask().WaitAsync(EndLimit, timeProvider).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
}
