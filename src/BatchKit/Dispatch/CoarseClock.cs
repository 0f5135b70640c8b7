namespace BatchKit.Dispatch;

/// <summary>The time as of the last tick of the buffer's watch: reading it costs nothing, where the exact clock takes 24 ns.</summary>
internal sealed class CoarseClock(TimeProvider timeProvider)
{
    private long _timestamp = timeProvider.GetTimestamp();

    public long Timestamp => Volatile.Read(ref _timestamp);

    public void Tick() => Volatile.Write(ref _timestamp, timeProvider.GetTimestamp());

    /// <summary>How long ago a stamp of this clock was taken; up to one tick off.</summary>
    public TimeSpan AgeOf(long stamp) => timeProvider.GetElapsedTime(stamp, Timestamp);
}
