namespace BatchKit.TransportSpecification.Support;

/// <summary>A timer of a <see cref="ManualTimeProvider"/>, which owns its times.</summary>
internal sealed class ManualTimer(ManualTimeProvider clock, TimerCallback callback, object? state) : ITimer
{
    private bool _disposed;

    internal long DueTicks { get; set; }

    internal long PeriodTicks { get; set; }

    internal long Arming { get; set; }

    public bool Change(TimeSpan dueTime, TimeSpan period)
    {
        if (Volatile.Read(ref _disposed))
            return false;
        clock.Arm(this, dueTime, period);
        return true;
    }

    public void Dispose()
    {
        Volatile.Write(ref _disposed, true);
        clock.Disarm(this);
    }

    public ValueTask DisposeAsync()
    {
        Dispose();
        return ValueTask.CompletedTask;
    }

    internal void Fire()
    {
        if (!Volatile.Read(ref _disposed))
            callback(state);
    }
}
