using System.Collections.Concurrent;
using System.Threading.Channels;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Tests.WebSockets;

/// <summary>Gives a test the lines of one category of the host's log, one after the other.</summary>
internal sealed class LogLines(string category) : ILoggerProvider, ILogger
{
    private readonly Channel<string> _lines = Channel.CreateUnbounded<string>();
    private readonly ConcurrentQueue<string> _all = new();

    public string Text => string.Join('\n', _all);

    /// <summary>Waits for the next line that has the text.</summary>
    public async Task<string> NextAsync(string text)
    {
        await foreach (var line in _lines.Reader.ReadAllAsync())
        {
            if (line.Contains(text))
                return line;
        }

        throw new InvalidOperationException("The log has ended.");
    }

    public ILogger CreateLogger(string categoryName) => categoryName == category ? this : Microsoft.Extensions.Logging.Abstractions.NullLogger.Instance;

    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => null;

    public bool IsEnabled(LogLevel logLevel) => true;

    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter) =>
        Write($"{logLevel}: {formatter(state, exception)} {exception}");

    public void Dispose() => _lines.Writer.TryComplete();

    private void Write(string line)
    {
        _all.Enqueue(line);
        _lines.Writer.TryWrite(line);
    }
}
