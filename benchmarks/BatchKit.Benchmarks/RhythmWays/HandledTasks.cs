namespace BatchKit.Benchmarks.RhythmWays;

/// <summary>Which tasks of a run were handled, and how often. Any number of workers at once.</summary>
internal sealed class HandledTasks
{
    private int[] _times = [];
    private int _left;
    private TaskCompletionSource _all = new();

    /// <summary>Completes when so many were handled as were expected.</summary>
    public Task All => _all.Task;

    public void Expect(int tasks)
    {
        _times = new int[tasks];
        _left = tasks;
        _all = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
    }

    public void Handle(ReadOnlySpan<byte> payload)
    {
        Interlocked.Increment(ref _times[TaskPayload.NumberOf(payload)]);
        if (Interlocked.Decrement(ref _left) == 0)
            _all.TrySetResult();
    }

    /// <exception cref="InvalidOperationException">A task was not handled, or more than once.</exception>
    public void Check()
    {
        var (missing, repeated) = (_times.Count(times => times == 0), _times.Count(times => times > 1));
        if (missing + repeated > 0)
            throw new InvalidOperationException($"Of {_times.Length} tasks {missing} were not handled, and {repeated} more than once.");
    }
}
