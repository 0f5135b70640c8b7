using Microsoft.Extensions.Logging;

namespace BatchKit.Postgres;

/// <summary>A logger that throws nothing. What the logger inside it throws stops no loop; it is counted, and the health check is degraded.</summary>
internal sealed class GuardedLogger(ILogger inner) : ILogger
{
    private long _faults;
    private volatile Exception? _last;

    /// <summary>What the logger has thrown, in a sentence; null when it has thrown nothing.</summary>
    public string? Fault => _last is { } last ? $"The logger failed {Interlocked.Read(ref _faults)} times; the last time it threw {last.GetType().Name}." : null;

    /// <summary>Guards a logger once, however often it is handed on.</summary>
    public static GuardedLogger Of(ILogger logger) => logger as GuardedLogger ?? new GuardedLogger(logger);

    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull
    {
        try
        {
            return inner.BeginScope(state);
        }
        catch (Exception fault)
        {
            Add(fault);
            return null;
        }
    }

    public bool IsEnabled(LogLevel logLevel)
    {
        try
        {
            return inner.IsEnabled(logLevel);
        }
        catch (Exception fault)
        {
            Add(fault);
            return false;
        }
    }

    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
    {
        try
        {
            inner.Log(logLevel, eventId, state, exception, formatter);
        }
        catch (Exception fault)
        {
            Add(fault);
        }
    }

    private void Add(Exception fault)
    {
        Interlocked.Increment(ref _faults);
        _last = fault;
    }
}
