using System.Threading.Tasks.Sources;
using BatchKit.Mqtt.Packets;

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

/// <summary>Messages that belong together, and how far their publishing has come: a batch, or those of one call. Guarded by the queue's lock.</summary>
internal abstract class PublishGroup
{
    private int _count;
    private int _next;

    // Sent over a connection that was lost while the group had no owner to send them again for: they come before _next.
    private SortedSet<int>? _again;

    /// <summary>The send that waits for it; null while nobody does, and then its memory is not to be read.</summary>
    public PublishSend? Owner { get; private set; }

    public int Unsettled { get; private set; }

    public bool HasUnsent => _next < _count || _again is { Count: > 0 };

    /// <summary>The first message that is to be sent; there must be one.</summary>
    public int NextIndex => _again is { Count: > 0 } ? _again.Min : _next;

    public void Advance()
    {
        if (_again is { Count: > 0 })
            _again.Remove(_again.Min);
        else
            _next++;
    }

    /// <summary>What the message says.</summary>
    /// <returns>Why it can't be published; a plain success when it can.</returns>
    public abstract MqttPublishResult Read(int index, ref PublishFields fields);

    public void Settle(int index, MqttPublishResult result)
    {
        Unsettled--;
        Record(index, result);
        if (Unsettled == 0)
            Owner?.GroupSettled();
    }

    /// <summary>The message was under way on a connection that was lost.</summary>
    public void SendAgain(int index) => (_again ??= []).Add(index);

    public void Adopt(PublishSend owner) => Owner = owner;

    public virtual void Leave() => Owner = null;

    protected void Begin(PublishSend owner, int count)
    {
        Owner = owner;
        Unsettled = _count = count;
        _next = 0;
        _again?.Clear();
    }

    protected abstract void Record(int index, MqttPublishResult result);
}
