using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast;

/// <summary>A logger that throws nothing: what the logger inside it throws is counted, and ends no connection, no listener and no process.</summary>
internal sealed class GuardedLogger(ILogger inner, LoggerFaults faults) : ILogger
{
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

/// <summary>What the loggers of a transport, its listeners and its endpoints threw. The transport's health tells of it.</summary>
internal sealed class LoggerFaults
{
    private long _count;
    private volatile Exception? _last;

    public long Count => Interlocked.Read(ref _count);

    public Exception? Last => _last;

    public void Add(Exception fault)
    {
        _last = fault;
        Interlocked.Increment(ref _count);
    }
}
