using System.Diagnostics;
using System.Diagnostics.Metrics;

namespace BatchKit.Testing.Specification;

/// <summary>Listens to the meters and activities of the whole process and throws at chosen calls, as an exporter with a full disk does. Disposing it stops it.</summary>
internal sealed class ThrowingListeners : IDisposable
{
    private readonly Func<string, bool> _listensTo;
    private readonly int _polite;
    private readonly int _faults;
    private readonly MeterListener _meters = new();
    private readonly ActivityListener _activities;
    private int _calls;
    private int _thrown;

    /// <summary>Begins to listen.</summary>
    /// <param name="polite">How many calls pass before the listeners begin to throw; zero for none.</param>
    /// <param name="faults">How many calls throw then.</param>
    /// <param name="listensTo">True for the names of meters and activity sources that they listen to.</param>
    public ThrowingListeners(int polite, int faults, Func<string, bool> listensTo)
    {
        (_listensTo, _polite, _faults) = (listensTo, polite, faults);
        _meters.InstrumentPublished = (instrument, listener) =>
        {
            if (_listensTo(instrument.Meter.Name))
                listener.EnableMeasurementEvents(instrument);
        };
        Measure<byte>();
        Measure<short>();
        Measure<int>();
        Measure<long>();
        Measure<float>();
        Measure<double>();
        Measure<decimal>();
        _meters.Start();
        _activities = new ActivityListener
        {
            ShouldListenTo = source => _listensTo(source.Name),
            Sample = Sample,
            ActivityStarted = _ => OnCall(),
            ActivityStopped = _ => OnCall(),
        };
        ActivitySource.AddActivityListener(_activities);
    }

    /// <summary>How many calls threw.</summary>
    public int Thrown => Volatile.Read(ref _thrown);

    public void Dispose()
    {
        _activities.Dispose();
        _meters.Dispose();
    }

    private void Measure<T>()
        where T : struct => _meters.SetMeasurementEventCallback<T>((_, _, _, _) => OnCall());

    private ActivitySamplingResult Sample(ref ActivityCreationOptions<ActivityContext> options)
    {
        OnCall();
        return ActivitySamplingResult.AllDataAndRecorded;
    }

    private void OnCall()
    {
        var call = Interlocked.Increment(ref _calls);
        if (call <= _polite || call - _polite > _faults)
            return;
        Interlocked.Increment(ref _thrown);
        throw new NotSupportedException("A listener throws.");
    }
}
