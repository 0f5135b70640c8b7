namespace BatchKit.Broadcast.Connections;

/// <summary>Counts running tasks, and waits until there are none.</summary>
internal sealed class RunningTasks
{
    // Guards both fields.
    private readonly Lock _lock = new();
    private int _count;
    private TaskCompletionSource? _none;

    public int Count
    {
        get
        {
            lock (_lock)
                return _count;
        }
    }

    public Task WhenNone()
    {
        lock (_lock)
            return _count == 0 ? Task.CompletedTask : (_none ??= new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously)).Task;
    }

    public void Begin()
    {
        lock (_lock)
            _count++;
    }

    public void End()
    {
        lock (_lock)
        {
            if (--_count > 0)
                return;
            _none?.SetResult();
            _none = null;
        }
    }
}
