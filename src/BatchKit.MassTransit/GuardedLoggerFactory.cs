using BatchKit.Diagnostics;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.MassTransit;

/// <summary>Guards the loggers that a bus creates.</summary>
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
