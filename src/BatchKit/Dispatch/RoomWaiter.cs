namespace BatchKit.Dispatch;

/// <summary>A writer that waits for room. It continues where senders run, never on the thread that made the room or cancelled the wait.</summary>
internal sealed class RoomWaiter(int bytes, IDispatchScheduler scheduler) : IThreadPoolWorkItem
{
    private readonly TaskCompletionSource _decision = new();
    private Exception? _refusal;
    private int _isDecided;

    public int Bytes { get; } = bytes;

    public Task Task => _decision.Task;

    public bool IsDecided => Volatile.Read(ref _isDecided) != 0;

    /// <returns>False when the wait had ended already.</returns>
    public bool TryGrant() => TryDecide(refusal: null);

    /// <inheritdoc cref="TryGrant"/>
    public bool TryRefuse(Exception refusal) => TryDecide(refusal);

    void IThreadPoolWorkItem.Execute()
    {
        if (_refusal is OperationCanceledException cancellation)
            _decision.SetCanceled(cancellation.CancellationToken);
        else if (_refusal is not null)
            _decision.SetException(_refusal);
        else
            _decision.SetResult();
    }

    private bool TryDecide(Exception? refusal)
    {
        if (Interlocked.Exchange(ref _isDecided, 1) != 0)
            return false;
        _refusal = refusal;
        scheduler.Schedule(this);
        return true;
    }
}
