using System.Diagnostics.Metrics;
using BatchKit.Diagnostics;

namespace BatchKit.Transports;

/// <summary>Counts the received frames that a receiver drops because too many wait for the next hop. Thread-safe.</summary>
internal sealed class FrameDrops : IDisposable
{
    private readonly LogThrottle _throttle;
    private readonly ObserverFaults _faults;
    private readonly Meter? _meter;
    private long _count;

    /// <param name="instrument">The counter's name.</param>
    /// <param name="buffer">The buffer's name, a tag of the meter.</param>
    /// <param name="meterFactory">Creates the meter; null for one of its own.</param>
    /// <param name="timeProvider">The clock of the pauses between two lines.</param>
    /// <param name="faults">Counts what the meter's listeners throw.</param>
    public FrameDrops(string instrument, string buffer, IMeterFactory? meterFactory, TimeProvider timeProvider, ObserverFaults faults)
    {
        var options = new MeterOptions("BatchKit") { Tags = [new("batchkit.buffer", buffer)] };
        (_throttle, _faults) = (new LogThrottle(timeProvider), faults);
        try
        {
            _meter = meterFactory?.Create(options) ?? new Meter(options);
            _meter.CreateObservableCounter(instrument, () => Count, "{frame}", "Received frames that were dropped because too many waited for the next hop.");
        }
        catch (Exception fault)
        {
            faults.Add(fault);
        }
    }

    public long Count => Interlocked.Read(ref _count);

    /// <summary>Counts a frame.</summary>
    /// <returns>How many to log now; null while another line would be too soon.</returns>
    public long? Add()
    {
        Interlocked.Increment(ref _count);
        return _throttle.TryBegin(eventId: 0, string.Empty, amount: 1, out var events) ? events.Count : null;
    }

    public void Dispose()
    {
        if (_meter is not null)
            _faults.Dispose(_meter);
    }
}
