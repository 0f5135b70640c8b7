using Microsoft.Extensions.Logging;

namespace BatchKit.Mqtt;

/// <summary>A logger that throws nothing: what the application's logger throws is counted, and health reports it.</summary>
internal sealed class GuardedLogger(ILogger inner) : ILogger
{
    public ObserverFaults Faults { get; } = new();

    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull
    {
        try
        {
            return inner.BeginScope(state);
        }
        catch (Exception fault)
        {
            Faults.Add(fault);
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
            Faults.Add(fault);
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
            Faults.Add(fault);
        }
    }
}

/// <summary>What loggers and cancellation callbacks of the application threw. They only observe, so what they throw ends no connection. Thread-safe.</summary>
internal sealed class ObserverFaults
{
    private long _count;
    private volatile Exception? _last;

    /// <summary>A human-readable sentence; null while nothing was thrown.</summary>
    public string? Description => _last is { } last
        ? $"Loggers or cancellation callbacks threw {Interlocked.Read(ref _count)} times, most recently {last.GetType().Name}."
        : null;

    public void Add(Exception fault)
    {
        Interlocked.Increment(ref _count);
        _last = fault.GetBaseException();
    }

    /// <summary>Cancels; what the callbacks throw is counted.</summary>
    public void Cancel(CancellationTokenSource source)
    {
        try
        {
            source.Cancel();
        }
        catch (Exception fault)
        {
            Add(fault);
        }
    }

    /// <inheritdoc cref="Cancel"/>
    public async Task CancelAsync(CancellationTokenSource source)
    {
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
