using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Tests.Support;

/// <summary>A logger that throws at every message.</summary>
internal sealed class ThrowingLogger<T> : ILogger<T>
{
    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => null;

    public bool IsEnabled(LogLevel logLevel) => true;

    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter) =>
        throw new InvalidOperationException("A logger that throws.");
}
