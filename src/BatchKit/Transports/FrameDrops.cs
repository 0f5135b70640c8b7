using System.Diagnostics.Metrics;
using BatchKit.Diagnostics;

namespace BatchKit.Transports;

/// <summary>Counts the received frames that a receiver drops because too many wait for the next hop. Thread-safe.</summary>
internal sealed class FrameDrops : IDisposable
{
    private readonly LogThrottle _throttle;
    private readonly Meter _meter;
    private long _count;

    public FrameDrops(string instrument, IMeterFactory? meterFactory, TimeProvider timeProvider)
    {
        var options = new MeterOptions("BatchKit");
        _throttle = new LogThrottle(timeProvider);
        _meter = meterFactory?.Create(options) ?? new Meter(options);
        _meter.CreateObservableCounter(instrument, () => Count, "{frame}", "Received frames that were dropped because too many waited for the next hop.");
    }

    public long Count => Interlocked.Read(ref _count);

    /// <summary>Counts a frame.</summary>
    /// <returns>How many to log now; null while another line would be too soon.</returns>
    public long? Add()
    {
        Interlocked.Increment(ref _count);
        return _throttle.TryBegin(eventId: 0, string.Empty, amount: 1, out var events) ? events.Count : null;
    }

    public void Dispose() => _meter.Dispose();
}
