namespace MudServer.Clients;

/// <summary>Counts the connected clients, so that a stop can wait until the game has closed all of them. Thread-safe.</summary>
internal sealed class ClientCount
{
    private readonly Lock _lock = new();

    // Guarded by the lock.
    private int _clients;
    private TaskCompletionSource? _none;

    public void Add()
    {
        lock (_lock)
            _clients++;
    }

    public void Remove()
    {
        lock (_lock)
        {
            if (--_clients == 0)
                _none?.TrySetResult();
        }
    }

    /// <summary>Completes when no client is connected; immediately when there is none now.</summary>
    public Task WhenNoneAsync()
    {
        lock (_lock)
        {
            if (_clients == 0)
                return Task.CompletedTask;
            _none ??= new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            return _none.Task;
        }
    }
}
