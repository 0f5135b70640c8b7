namespace BatchKit.Dispatch;

/// <summary>A flush that waits until the batches up to its own are settled. It continues on the thread pool, never on the sender's thread.</summary>
internal sealed class FlushWaiter(long through, long remaining) : TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously)
{
    private long _remaining = remaining;
    private long _lostMessages;
    private Exception? _failure;

    /// <summary>Guarded by the settlement's lock.</summary>
    public void OnSettled(long sequence, long lostMessages, Exception? failure)
    {
        if (sequence > through)
            return;
        _lostMessages += lostMessages;
        _failure ??= failure;
        if (--_remaining > 0)
            return;
        if (_lostMessages == 0)
        {
            TrySetResult();
            return;
        }

        TrySetException(new OutputDeliveryException(_lostMessages, $"{_lostMessages} messages were not delivered: {_failure?.Message ?? "they were dropped."}", _failure));

        // A flush whose caller stopped waiting must not show up as an unobserved exception.
        _ = Task.Exception;
    }
}
