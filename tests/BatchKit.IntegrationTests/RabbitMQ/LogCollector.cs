using System.Collections.Concurrent;
using Microsoft.Extensions.Logging;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>Keeps all that is logged, exceptions included, as text.</summary>
internal sealed class LogCollector : ILoggerProvider, ILogger
{
    private readonly ConcurrentQueue<string> _lines = new();

    public string Text => string.Join(Environment.NewLine, _lines);

    public ILogger CreateLogger(string categoryName) => this;

    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => null;

    public bool IsEnabled(LogLevel logLevel) => true;

    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter) =>
        _lines.Enqueue($"{logLevel} {formatter(state, exception)} {exception}");

    public void Dispose()
    {
        // It owns nothing.
    }
}
