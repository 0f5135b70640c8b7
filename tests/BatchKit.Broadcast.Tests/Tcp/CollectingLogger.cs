using System.Collections.Concurrent;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Tests.Tcp;

/// <summary>Keeps what a listener logs.</summary>
internal sealed class CollectingLogger : ILogger<BroadcastListener>
{
    private readonly ConcurrentQueue<(int Id, string Text)> _entries = new();
    private readonly SemaphoreSlim _written = new(initialCount: 0);

    public IEnumerable<(int Id, string Text)> Entries => _entries;

    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => null;

    public bool IsEnabled(LogLevel logLevel) => true;

    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
    {
        _entries.Enqueue((eventId.Id, formatter(state, exception)));
        _written.Release();
    }

    /// <summary>Waits for an entry with this id.</summary>
    public async Task<string> WaitForAsync(int id)
    {
        while (true)
        {
            if (_entries.FirstOrDefault(entry => entry.Id == id).Text is { } text)
                return text;
            await _written.WaitAsync().WithinDeadline();
        }
    }
}
