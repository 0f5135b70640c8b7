using Microsoft.Extensions.Logging;

namespace BatchKit.Mqtt.Tests;

/// <summary>A logger that throws at one of its calls, or at random ones.</summary>
/// <param name="throws">Says for the number of a call, from 1, whether it throws.</param>
internal sealed class ThrowingLogger<T>(Func<int, bool> throws) : ILogger<T>
{
    private int _calls;

    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => null;

    public bool IsEnabled(LogLevel logLevel) => true;

    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
    {
        if (throws(Interlocked.Increment(ref _calls)))
            throw new InvalidOperationException("The logger is broken.");
    }
}
