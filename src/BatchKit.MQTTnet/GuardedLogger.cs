using Microsoft.Extensions.Logging;

namespace BatchKit.MQTTnet;

/// <summary>A logger that throws nothing. The application's logger only observes: what it throws must fail neither a connect of its client nor a send.</summary>
internal sealed class GuardedLogger(ILogger inner) : ILogger
{
    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => null;

    public bool IsEnabled(LogLevel logLevel)
    {
        try
        {
            return inner.IsEnabled(logLevel);
        }
        catch (Exception)
        {
            return false;
        }
    }

    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
    {
        try
        {
            inner.Log(logLevel, eventId, state, exception, formatter);
        }
        catch (Exception)
        {
            // There is no other place to report it: the package has no health check.
        }
    }
}
