namespace BatchKit.Postgres.Frames;

/// <summary>Lets one batch be handled at a time, in the order of their coming: the handler whose claim was lost may not have ended when the next one begins. Any thread.</summary>
internal sealed class HandlerTurns
{
    // Guards the task behind which the next batch waits.
    private readonly Lock _gate = new();
    private Task _earlier = Task.CompletedTask;

    /// <summary>Queues up: wait for the first, and complete the second, whatever happens.</summary>
    public (Task Earlier, TaskCompletionSource Ended) Join()
    {
        var ended = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        lock (_gate)
        {
            var earlier = _earlier;
            _earlier = Task.WhenAll(earlier, ended.Task);
            return (earlier, ended);
        }
    }
}
