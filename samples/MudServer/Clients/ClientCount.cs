namespace MudServer.Clients;

/// <summary>Counts who is connected, so that a stop can wait until the game has seen everybody off. Used from any thread.</summary>
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

    /// <summary>Completes when no client is left; at once when there is none now.</summary>
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
