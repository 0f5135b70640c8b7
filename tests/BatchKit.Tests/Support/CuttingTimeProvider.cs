using BatchKit.Testing;

namespace BatchKit.Tests.Support;

/// <summary>Cuts the times of its timers to whole milliseconds, as .NET's timers do, and counts how often they are set.</summary>
/// <param name="clock">Moves it.</param>
internal sealed class CuttingTimeProvider(ManualTimeProvider clock) : TimeProvider
{
    // From here on a timer takes time: one that is set again and again for none at all would keep the clock from moving.
    private const int MaxChanges = 1000;

    private int _changes;

    /// <summary>How often timers without a period were set.</summary>
    public int Changes => Volatile.Read(ref _changes);

    public override long TimestampFrequency => clock.TimestampFrequency;

    public override long GetTimestamp() => clock.GetTimestamp();

    public override DateTimeOffset GetUtcNow() => clock.GetUtcNow();

    public override ITimer CreateTimer(TimerCallback callback, object? state, TimeSpan dueTime, TimeSpan period) =>
        new CuttingTimer(this, clock.CreateTimer(callback, state, Cut(dueTime), Cut(period)));

    private static TimeSpan Cut(TimeSpan time) => TimeSpan.FromMilliseconds(Math.Truncate(time.TotalMilliseconds));

    private sealed class CuttingTimer(CuttingTimeProvider owner, ITimer timer) : ITimer
    {
        public bool Change(TimeSpan dueTime, TimeSpan period)
        {
            var isSetOnce = dueTime != Timeout.InfiniteTimeSpan && period == Timeout.InfiniteTimeSpan;
            var isLooping = isSetOnce && Interlocked.Increment(ref owner._changes) > MaxChanges;
            return timer.Change(Cut(dueTime + (isLooping ? TimeSpan.FromMilliseconds(1) : TimeSpan.Zero)), Cut(period));
        }

        public void Dispose() => timer.Dispose();

        public ValueTask DisposeAsync() => timer.DisposeAsync();
    }
}
