using System.Collections.Concurrent;
using Microsoft.Extensions.Logging;

namespace BatchKit.TestSupport;

/// <summary>Collects every log entry, of every level, as text; exceptions too.</summary>
/// <remarks><c>new Logger&lt;T&gt;(collector)</c> makes a typed logger.</remarks>
public sealed class LogCollector : ILoggerProvider, ILoggerFactory, ILogger
{
    private readonly ConcurrentQueue<(int Id, LogLevel Level, string Text)> _entries = new();
    private readonly SemaphoreSlim _written = new(initialCount: 0);

    /// <summary>All entries, in order, one a line.</summary>
    public string Text => string.Join(Environment.NewLine, _entries.Select(static entry => entry.Text));

    /// <summary>All entries, in order.</summary>
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

    /// <summary>How many entries have this id.</summary>
    public int Count(int id) => _entries.Count(entry => entry.Id == id);

    /// <summary>Waits until this many entries have this id.</summary>
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
        // The semaphore holds no unmanaged handle.
    }
}
