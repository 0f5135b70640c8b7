using System.Diagnostics;
using System.Diagnostics.Metrics;
using BatchKit.Diagnostics;
using Microsoft.Extensions.Logging;

namespace BatchKit.Tests.Schedules;

/// <summary>A logger, a meter listener and an activity listener that throw at random, and count how often they did.</summary>
/// <remarks>They draw from a random source of their own, because a stop goes on on the pool.</remarks>
internal sealed class HostileObservers : ILogger<OutputBuffer>, IMeterFactory
{
    private const int ThrowsPercent = 30;

    // Listeners of activities hear every buffer of the process.
    [ThreadStatic]
    private static HostileObservers? _ofThread;

    private readonly Lock _gate = new();
    private readonly Random _random;
    private readonly List<Meter> _meters = [];
    private readonly MeterListener _meterListener = new();
    private readonly ActivityListener _activityListener;

    public HostileObservers(int seed)
    {
        _random = new Random(seed);
        _ofThread = this;
        _meterListener.InstrumentPublished = (instrument, listener) =>
        {
            if (ReferenceEquals(instrument.Meter.Scope, this) && !instrument.IsObservable)
                listener.EnableMeasurementEvents(instrument);
        };
        _meterListener.MeasurementsCompleted = (_, _) => MayThrow();
        _meterListener.SetMeasurementEventCallback<long>((_, _, _, _) => MayThrow());
        _meterListener.SetMeasurementEventCallback<double>((_, _, _, _) => MayThrow());
        _meterListener.Start();
        _activityListener = new ActivityListener
        {
            ShouldListenTo = static source => source.Name == BatchKitTracing.SourceName,
            Sample = (ref ActivityCreationOptions<ActivityContext> _) => MayThrowHere() ? ActivitySamplingResult.AllDataAndRecorded : ActivitySamplingResult.None,
            ActivityStarted = _ => MayThrowHere(),
            ActivityStopped = _ => MayThrowHere(),
        };
        ActivitySource.AddActivityListener(_activityListener);
    }

    /// <summary>Tells whether the buffer calls an observer under one of its locks; null when that is not asked.</summary>
    public Func<bool>? IsUnderLock { get; set; }

    public bool WasUnderLock { get; private set; }

    /// <summary>True when a handler of a send's cancellation threw. Several handlers of one cancellation count once.</summary>
    public bool HandlersThrew { get; private set; }

    /// <summary>How often the others threw.</summary>
    public int Thrown { get; private set; }

    public Meter Create(MeterOptions options)
    {
        options.Scope = this;
        var meter = new Meter(options);
        _meters.Add(meter);
        return meter;
    }

    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull
    {
        MayThrow();
        return null;
    }

    public bool IsEnabled(LogLevel logLevel)
    {
        MayThrow();
        return true;
    }

    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter) => MayThrow();

    /// <summary>A handler of a send's cancellation.</summary>
    public void OnCancelled()
    {
        HandlersThrew = true;
        throw new NotSupportedException("The schedule says that this handler fails.");
    }

    public void Dispose()
    {
        _ofThread = null;
        _activityListener.Dispose();
        _meterListener.MeasurementsCompleted = null;
        _meterListener.Dispose();
        _meters.ForEach(static meter => meter.Dispose());
    }

    private bool MayThrowHere()
    {
        if (!ReferenceEquals(_ofThread, this))
            return false;
        MayThrow();
        return true;
    }

    private void MayThrow()
    {
        if (IsUnderLock is not null && !WasUnderLock)
            WasUnderLock = IsUnderLock();
        lock (_gate)
        {
            if (_random.Next(100) >= ThrowsPercent)
                return;
            Thrown++;
        }

        throw new NotSupportedException("The schedule says that this observer fails.");
    }
}
