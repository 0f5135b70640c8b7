using System.Threading.Tasks.Sources;

namespace BatchKit.Mqtt.Publishing;

/// <summary>One call that waits until its groups are settled, or until it is given up. Pooled; guarded by the queue's lock but for the awaiting.</summary>
internal abstract class PublishSend
{
    // Continuations run elsewhere: on the reader's thread a caller that blocks would keep the very acknowledgement from being read that it waits for.
    private ManualResetValueTaskSourceCore<bool> _completion = new() { RunContinuationsAsynchronously = true };
    private CancellationTokenRegistration _registration;
    private int _unsettledGroups;

    public short Version => _completion.Version;

    /// <summary>True from its end to its next call.</summary>
    public bool IsComplete { get; private set; }

    /// <summary>The first group with something to send; null when there is none.</summary>
    public abstract PublishGroup? NextGroup { get; }

    public bool HasUnsent => NextGroup is not null;

    public void GroupSettled()
    {
        if (--_unsettledGroups == 0)
            Complete(cause: null);
    }

    public void GiveUp(Exception cause) => Complete(cause);

    /// <summary>Watches the caller's token; not under the lock, because a cancelled one calls back at once.</summary>
    public void Watch(Action<object?, CancellationToken> giveUp, CancellationToken cancellationToken)
    {
        if (cancellationToken.CanBeCanceled)
            _registration = cancellationToken.UnsafeRegister(giveUp, this);
    }

    public ValueTaskSourceStatus GetStatus(short token) => _completion.GetStatus(token);

    public void OnCompleted(Action<object?> continuation, object? state, short token, ValueTaskSourceOnCompletedFlags flags) =>
        _completion.OnCompleted(continuation, state, token, flags);

    protected void Begin(int unsettledGroups)
    {
        IsComplete = false;
        _unsettledGroups = unsettledGroups;
        if (unsettledGroups == 0)
            Complete(cause: null);
    }

    /// <summary>Leaves its groups: from here on nobody reads the caller's memory.</summary>
    /// <param name="cause">Why it is given up; null when every group is settled.</param>
    /// <returns>What the caller is to be thrown; null for nothing.</returns>
    protected abstract Exception? Finish(Exception? cause);

    /// <summary>Ends the wait, throws what it failed with, and makes it fit for another call.</summary>
    protected void End(short token)
    {
        try
        {
            _completion.GetResult(token);
        }
        finally
        {
            // Waits for a call-back under way, which must not meet the next call.
            _registration.Dispose();
            _registration = default;
            _completion.Reset();
        }
    }

    private void Complete(Exception? cause)
    {
        var failure = Finish(cause);
        IsComplete = true;
        // Who sees that it has succeeded expects its result not to throw.
        if (failure is null)
            _completion.SetResult(true);
        else
            _completion.SetException(failure);
    }
}
