using System.Diagnostics.Metrics;
using BatchKit.Diagnostics;

namespace BatchKit.Transports;

/// <summary>Counts the received frames that a receiver drops because too many wait for the next hop. Thread-safe.</summary>
internal sealed class FrameDrops : IDisposable
{
    private readonly ObserverFaults _faults;
    private readonly Meter? _meter;
    private long _count;

    /// <param name="instrument">The counter's name.</param>
    /// <param name="buffer">The buffer's name, a tag of the meter.</param>
    /// <param name="meterFactory">Creates the meter; null for one of its own.</param>
    /// <param name="faults">Counts what the meter's listeners throw.</param>
    public FrameDrops(string instrument, string buffer, IMeterFactory? meterFactory, ObserverFaults faults)
    {
        _faults = faults;
        _meter = faults.CreateMeter(
            meterFactory, [new("batchkit.buffer", buffer)],
            meter => meter.CreateObservableCounter(instrument, () => Count, "{frame}", "Received frames that were dropped because too many waited for the next hop."));
    }

    public long Count => Interlocked.Read(ref _count);

    /// <summary>Counts a frame.</summary>
    public void Add() => Interlocked.Increment(ref _count);

    public void Dispose() => _faults.Dispose(_meter);
}
