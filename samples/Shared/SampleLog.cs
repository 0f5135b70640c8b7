using Microsoft.Extensions.Logging;

namespace Shared;

/// <summary>Keeps the last lines that BatchKit logged, for the views, such as a lost connection.</summary>
internal sealed class SampleLog : ILoggerProvider, ILogger
{
    private const int MaxKept = 1000;

    private readonly Queue<LogEntry> _events = [];
    private long _added;

    /// <summary>Returns the events after a position, as far as they are kept.</summary>
    /// <param name="position">The number of events that the caller has seen; set to the number of all events so far.</param>
    public IReadOnlyList<LogEntry> ReadFrom(ref long position)
    {
        lock (_events)
        {
            var fresh = (int)Math.Min(_added - position, _events.Count);
            position = _added;
            return [.. _events.Skip(_events.Count - fresh)];
        }
    }

    public void Add(string text, bool isTrouble = false)
    {
        lock (_events)
        {
            _added++;
            _events.Enqueue(new LogEntry(DateTimeOffset.Now, isTrouble, text));
            if (_events.Count > MaxKept)
                _events.Dequeue();
        }
    }

    public ILogger CreateLogger(string categoryName) => this;

    public bool IsEnabled(LogLevel logLevel) => true;

    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => null;

    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter) =>
        Add(formatter(state, exception).ReplaceLineEndings(" "), logLevel >= LogLevel.Warning);

    public void Dispose()
    {
    }
}

/// <summary>Something that BatchKit logged, or that the sample itself has to say.</summary>
/// <param name="At">The time of day.</param>
/// <param name="IsTrouble">True for a warning or an error.</param>
/// <param name="Text">What happened.</param>
internal sealed record LogEntry(DateTimeOffset At, bool IsTrouble, string Text);
