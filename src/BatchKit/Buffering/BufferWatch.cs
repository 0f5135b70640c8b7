using BatchKit.Dispatch;

namespace BatchKit.Buffering;

/// <summary>Ticks the coarse clock, closes scopes that are too old and gives up idle handles.</summary>
internal sealed class BufferWatch : IAsyncDisposable
{
    private static readonly TimeSpan LongestInterval = TimeSpan.FromSeconds(1);

    private readonly HandleTable _handles;
    private readonly CoarseClock _clock;
    private readonly TimeSpan _idleTimeout;
    private readonly ITimer _timer;

    public BufferWatch(HandleTable handles, CoarseClock clock, OutputBufferOptions options, TimeProvider timeProvider)
    {
        _handles = handles;
        _clock = clock;
        _idleTimeout = options.HandleIdleTimeout;
        var interval = IntervalFor(options);
        _timer = timeProvider.CreateTimer(static state => ((BufferWatch)state!).OnTick(), this, interval, interval);
    }

    public ValueTask DisposeAsync() => _timer.DisposeAsync();

    // An eighth of the shortest span that is measured with the coarse clock.
    private static TimeSpan IntervalFor(OutputBufferOptions options)
    {
        var shortest = new[] { options.MaxScopeAge, options.HandleIdleTimeout, options.DeliveryTimeout }.Min();
        return shortest / 8 < LongestInterval ? shortest / 8 : LongestInterval;
    }

    private void OnTick()
    {
        _clock.Tick();
        _handles.Sweep(_idleTimeout);
    }
}
