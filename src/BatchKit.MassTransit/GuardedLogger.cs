using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.MassTransit;

/// <summary>A logger that throws nothing. What the logger inside it throws stops no loop; it is counted, and the health check is degraded.</summary>
internal sealed class GuardedLogger(ILogger inner, LoggerFaults faults) : ILogger
{
    public GuardedLogger(ILogger inner)
        : this(inner, new LoggerFaults())
    {
    }

    /// <summary>What the logger has thrown, in a sentence; null when it has thrown nothing.</summary>
    public string? Fault => faults.Description;

    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull
    {
        try
        {
            return inner.BeginScope(state);
        }
        catch (Exception fault)
        {
            faults.Add(fault);
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
            faults.Add(fault);
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
            faults.Add(fault);
        }
    }
}

/// <summary>Guards the loggers that a bus creates.</summary>
internal sealed class GuardedLoggerFactory(ILoggerFactory inner) : ILoggerFactory
{
    private readonly LoggerFaults _faults = new();

    public GuardedLogger Guard<T>()
    {
        try
        {
            return new GuardedLogger(inner.CreateLogger<T>(), _faults);
        }
        catch (Exception fault)
        {
            _faults.Add(fault);
            return new GuardedLogger(NullLogger.Instance, _faults);
        }
    }

    public ILogger CreateLogger(string categoryName)
    {
        try
        {
            return new GuardedLogger(inner.CreateLogger(categoryName), _faults);
        }
        catch (Exception fault)
        {
            _faults.Add(fault);
            return NullLogger.Instance;
        }
    }

    public void AddProvider(ILoggerProvider provider) => inner.AddProvider(provider);

    public void Dispose()
    {
        // The application owns the loggers.
    }
}

/// <summary>Counts what loggers throw.</summary>
internal sealed class LoggerFaults
{
    private long _count;
    private volatile Exception? _last;

    public string? Description => _last is { } last ? $"The logger failed {Interlocked.Read(ref _count)} times; the last time it threw {last.GetType().Name}." : null;

    public void Add(Exception fault)
    {
        Interlocked.Increment(ref _count);
        _last = fault;
    }
}
