using System.Collections.Concurrent;
using Microsoft.Extensions.Logging;

namespace BatchKit.Tests.Support;

/// <summary>Keeps every log line as <c>Level: text</c>.</summary>
internal sealed class CollectingLogger : ILogger<OutputBuffer>
{
    public ConcurrentQueue<string> Lines { get; } = new();

    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => null;

    public bool IsEnabled(LogLevel logLevel) => true;

    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter) =>
        Lines.Enqueue($"{logLevel}: {formatter(state, exception)}");
}
