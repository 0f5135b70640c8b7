using BatchKit.Diagnostics;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.MassTransit;

/// <summary>Wraps the loggers of a bus, so that exceptions of the application's loggers are counted and do not reach the bus.</summary>
internal sealed class GuardedLoggerFactory(ILoggerFactory inner) : ILoggerFactory
{
    private readonly ObserverFaults _faults = new();

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
