using System.Collections.Concurrent;
using Microsoft.Extensions.Logging;

namespace BatchKit.TestSupport;

/// <summary>Keeps all that is logged, at every level, exceptions included, as text.</summary>
/// <remarks>A logger of a type is <c>new Logger&lt;T&gt;(collector)</c>.</remarks>
public sealed class LogCollector : ILoggerProvider, ILoggerFactory, ILogger
{
    private readonly ConcurrentQueue<(int Id, LogLevel Level, string Text)> _entries = new();
    private readonly SemaphoreSlim _written = new(initialCount: 0);

    /// <summary>Everything, in order.</summary>
    public string Text => string.Join(Environment.NewLine, _entries.Select(static entry => entry.Text));

    /// <summary>Everything, in order, with the ids.</summary>
    public IEnumerable<(int Id, LogLevel Level, string Text)> Entries => _entries;

    /// <inheritdoc/>
    public ILogger CreateLogger(string categoryName) => this;

    /// <inheritdoc/>
    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => null;

    /// <inheritdoc/>
    public bool IsEnabled(LogLevel logLevel) => true;

    /// <inheritdoc/>
    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
    {
        ArgumentNullException.ThrowIfNull(formatter);
        _entries.Enqueue((eventId.Id, logLevel, $"{logLevel} {formatter(state, exception)} {exception}"));
        _written.Release();
    }

    /// <summary>How often this id was logged.</summary>
    public int Count(int id) => _entries.Count(entry => entry.Id == id);

    /// <summary>Waits until this id was logged so often.</summary>
    public async Task WaitForAsync(int id, int count = 1)
    {
        while (Count(id) < count)
            await _written.WaitAsync().WithinDeadline();
    }

    /// <inheritdoc/>
    public void AddProvider(ILoggerProvider provider) => throw new NotSupportedException("It is the only one.");

    /// <inheritdoc/>
    public void Dispose()
    {
        // Its semaphore holds nothing that must be given back.
    }
}
