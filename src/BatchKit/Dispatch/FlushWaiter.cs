namespace BatchKit.Dispatch;

/// <summary>A flush that counts down the batches queued before it. Used again by its handle; guarded by the settlement's lock.</summary>
internal sealed class FlushWaiter
{
    private long _through;
    private long _remaining;
    private long _lostMessages;
    private Exception? _failure;
    private TaskCompletionSource? _completion;

    public bool IsDone => _remaining == 0;

    /// <summary>What the flush fails with; null when everything was acknowledged.</summary>
    public OutputDeliveryException? Error => _lostMessages == 0
        ? null
        : new OutputDeliveryException(
            _lostMessages, $"{_lostMessages} messages were not delivered: {_failure?.Message ?? "they were dropped."}", _failure);

    public void Begin(long through, long remaining)
    {
        _through = through;
        _remaining = remaining;
        _lostMessages = 0;
        _failure = null;
        _completion = null;
    }

    /// <summary>For a flush that is not done yet. It continues on the thread pool, never on the sender's thread.</summary>
    public Task WhenDoneAsync() => (_completion ??= new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously)).Task;

    public void OnSettled(long sequence, long lostMessages, Exception? failure)
    {
        if (sequence > _through)
            return;
        _lostMessages += lostMessages;
        _failure ??= failure;
        if (--_remaining == 0 && _completion is not null)
            Complete(_completion);
    }

    private void Complete(TaskCompletionSource completion)
    {
        if (Error is not { } error)
        {
            completion.SetResult();
            return;
        }

        completion.SetException(error);

        // A flush whose caller stopped waiting must not show up as an unobserved exception.
        _ = completion.Task.Exception;
    }
}
