namespace MudServer.Clients;

/// <summary>The connected clients, so that a stop can send them away and wait until all have gone. Thread-safe.</summary>
internal sealed class ConnectedClients
{
    private readonly Lock _lock = new();

    // Guarded by the lock.
    private readonly HashSet<PlayerConnection> _clients = [];
    private TaskCompletionSource? _none;

    private long _lateLines;

    /// <summary>Lines that came after their client was sent away, and were dropped.</summary>
    public long LateLines => Interlocked.Read(ref _lateLines);

    public void Add(PlayerConnection client)
    {
        lock (_lock)
            _clients.Add(client);
    }

    public void Remove(PlayerConnection client)
    {
        lock (_lock)
        {
            if (_clients.Remove(client) && _clients.Count == 0)
                _none?.TrySetResult();
        }
    }

    public IReadOnlyList<PlayerConnection> ToList()
    {
        lock (_lock)
            return [.. _clients];
    }

    public void CountLateLines(int lines) => Interlocked.Add(ref _lateLines, lines);

    /// <summary>Counts the clients that have a player.</summary>
    public int CountPlayers()
    {
        lock (_lock)
            return _clients.Count(client => client.IsPlaying);
    }

    /// <summary>Completes when no client is connected; immediately when there is none now.</summary>
    public Task WhenNoneAsync()
    {
        lock (_lock)
        {
            if (_clients.Count == 0)
                return Task.CompletedTask;
            _none ??= new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            return _none.Task;
        }
    }
}
