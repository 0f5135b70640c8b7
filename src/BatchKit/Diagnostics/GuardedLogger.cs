using System.Diagnostics.Metrics;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.Diagnostics;

/// <summary>Counts what observers throw: loggers, meter and activity listeners, and callbacks of cancellation tokens.</summary>
/// <remarks>Observers only watch, so their exceptions end no loop and no connection. A health check reports them as degraded. Thread-safe.</remarks>
internal sealed class ObserverFaults
{
    private long _count;
    private volatile Exception? _last;

    /// <summary>How often an observer has thrown.</summary>
    public long Count => Interlocked.Read(ref _count);

    /// <summary>The exception that was thrown last; null while nothing was thrown. What callbacks of a cancellation threw is an <see cref="AggregateException"/>.</summary>
    public Exception? Last => _last;

    /// <summary>A human-readable sentence on what was thrown, with the exception's type but without its message; null while nothing was thrown.</summary>
    public string? Description => this is { Count: > 0 and var count, Last: { } last }
        ? $"Loggers, listeners, routers or callbacks threw {count} times, last {FailureText.CauseOf(last).GetType().Name}."
        : null;

    /// <summary>Counts an exception.</summary>
    /// <param name="fault">What an observer threw.</param>
    public void Add(Exception fault)
    {
        ArgumentNullException.ThrowIfNull(fault);
        _last = fault;
        Interlocked.Increment(ref _count);
    }

    /// <summary>Creates the meter <c>BatchKit</c> with its instruments. What the factory or a listener throws is counted, and leaves out the instruments behind.</summary>
    /// <param name="factory">Creates the meter; null for one of its own.</param>
    /// <param name="tags">The meter's tags.</param>
    /// <param name="addInstruments">Adds the instruments.</param>
    public Meter? CreateMeter(IMeterFactory? factory, KeyValuePair<string, object?>[] tags, Action<Meter> addInstruments)
    {
        ArgumentNullException.ThrowIfNull(addInstruments);
        var options = new MeterOptions("BatchKit") { Tags = tags };
        Meter? meter = null;
        try
        {
            meter = factory?.Create(options) ?? new Meter(options);
            addInstruments(meter);
        }
        catch (Exception fault)
        {
            Add(fault);
        }

        return meter;
    }

    /// <summary>Disposes a meter; what its listeners throw is counted.</summary>
    /// <param name="meter">The meter; null for none.</param>
    public void Dispose(IDisposable? meter)
    {
        try
        {
            meter?.Dispose();
        }
        catch (Exception fault)
        {
            Add(fault);
        }
    }

    /// <summary>Cancels, and runs the callbacks before it returns; what they throw is counted.</summary>
    /// <param name="source">What to cancel; what its <see cref="CancellationTokenSource.Cancel()"/> throws is counted too, for instance after its disposal.</param>
    public void Cancel(CancellationTokenSource source)
    {
        ArgumentNullException.ThrowIfNull(source);
        try
        {
            source.Cancel();
        }
        catch (Exception fault)
        {
            Add(fault);
        }
    }

    /// <summary>Cancels, and completes when the callbacks have run on the thread pool; what they throw is counted.</summary>
    /// <inheritdoc cref="Cancel" path="/param"/>
    public async Task CancelAsync(CancellationTokenSource source)
    {
        ArgumentNullException.ThrowIfNull(source);
        try
        {
            await source.CancelAsync().ConfigureAwait(false);
        }
        catch (Exception fault)
        {
            Add(fault);
        }
    }
}

/// <summary>Gives a part the logger of the type that it belongs to.</summary>
/// <typeparam name="T">The part.</typeparam>
/// <param name="owner">The owner's logger.</param>
internal sealed class LoggerOf<T>(ILogger owner) : ILogger<T>
{
    /// <inheritdoc/>
    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => owner.BeginScope(state);

    /// <inheritdoc/>
    public bool IsEnabled(LogLevel logLevel) => owner.IsEnabled(logLevel);

    /// <inheritdoc/>
    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter) => owner.Log(logLevel, eventId, state, exception, formatter);
}

/// <summary>A logger that throws nothing: what the logger inside it throws is counted.</summary>
/// <remarks>When the logger inside it throws, a scope is null, a level counts as disabled or a line is lost. Thread-safe when the logger inside it is.</remarks>
internal sealed class GuardedLogger : ILogger
{
    private readonly ILogger _inner;

    /// <summary>Guards a logger.</summary>
    /// <param name="inner">The application's logger.</param>
    /// <param name="faults">Counts what the logger throws, and may be shared; null, the default, for a count of its own.</param>
    public GuardedLogger(ILogger inner, ObserverFaults? faults = null)
    {
        ArgumentNullException.ThrowIfNull(inner);
        _inner = inner;
        Faults = faults ?? new ObserverFaults();
    }

    /// <summary>What the logger has thrown, and what other loggers that share the count have.</summary>
    public ObserverFaults Faults { get; }

    /// <summary>Guards a logger once, however often it is handed on.</summary>
    /// <param name="logger">The application's logger; null logs nothing.</param>
    /// <returns>The logger itself when it is guarded already, with its count; else a new guard with a count of its own.</returns>
    public static GuardedLogger Of(ILogger? logger) => logger as GuardedLogger ?? new GuardedLogger(logger ?? NullLogger.Instance);

    /// <inheritdoc/>
    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull
    {
        try
        {
            return _inner.BeginScope(state);
        }
        catch (Exception fault)
        {
            Faults.Add(fault);
            return null;
        }
    }

    /// <inheritdoc/>
    public bool IsEnabled(LogLevel logLevel)
    {
        try
        {
            return _inner.IsEnabled(logLevel);
        }
        catch (Exception fault)
        {
            Faults.Add(fault);
            return false;
        }
    }

    /// <inheritdoc/>
    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
    {
        try
        {
            _inner.Log(logLevel, eventId, state, exception, formatter);
        }
        catch (Exception fault)
        {
            Faults.Add(fault);
        }
    }
}
