using System.Threading.Tasks.Sources;
using BatchKit.Diagnostics;
using BatchKit.Mqtt.Packets;

namespace BatchKit.Mqtt.Publishing;

/// <summary>One call that waits until its groups are settled or it is given up. Pooled. The queue's lock guards it, except for the completion.</summary>
internal abstract class PublishSend
{
    // Continuations run on the thread pool. On the reader's thread, a caller that blocks would keep the reader from the acknowledgement that the caller waits for.
    private ManualResetValueTaskSourceCore<bool> _completion = new() { RunContinuationsAsynchronously = true };
    private CancellationTokenRegistration _registration;
    private int _unsettledGroups;

    protected PublishSend() => (OpenNode, UnsentNode) = (new LinkedListNode<PublishSend>(this), new LinkedListNode<PublishSend>(this));

    /// <summary>The send's nodes in the lists of <see cref="PublishSends"/>, so that its end removes it in constant time.</summary>
    public LinkedListNode<PublishSend> OpenNode { get; }

    /// <inheritdoc cref="OpenNode"/>
    public LinkedListNode<PublishSend> UnsentNode { get; }

    public short Version => _completion.Version;

    /// <summary>True between the end of a call and the next call.</summary>
    public bool IsComplete { get; private set; }

    /// <summary>The first group with unsent messages; null when there is none.</summary>
    public abstract PublishGroup? NextGroup { get; }

    public bool HasUnsent => NextGroup is not null;

    public void GroupSettled()
    {
        if (--_unsettledGroups == 0)
            Complete(cause: null);
    }

    public void GiveUp(Exception cause) => Complete(cause);

    /// <summary>Creates the exception for a call that its caller cancelled.</summary>
    /// <param name="noConnection">The reason why there is no connection; null when there is one.</param>
    /// <param name="cancellationToken">The caller's token.</param>
    public virtual Exception CreateCancellation(IOException? noConnection, CancellationToken cancellationToken) => noConnection is null
        ? new OperationCanceledException(cancellationToken)
        : new OperationCanceledException(FailureText.MessageOf(noConnection), noConnection, cancellationToken);

    /// <summary>Registers with the caller's token. A cancelled token calls back before this returns, on the same thread, which may take the queue's lock again.</summary>
    public void Watch(Action<object?, CancellationToken> giveUp, CancellationToken cancellationToken)
    {
        if (cancellationToken.CanBeCanceled && !IsComplete)
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

    /// <summary>Detaches from its groups: after this, no one reads the caller's memory.</summary>
    /// <param name="cause">Why the call is given up; null when every group is settled.</param>
    /// <returns>The exception for the caller; null for success.</returns>
    protected abstract Exception? Finish(Exception? cause);

    /// <summary>Checks that the result may be taken. Nothing changes before this check, so taking the result too early does not harm the call.</summary>
    /// <exception cref="InvalidOperationException">The call has not ended, or its result was taken before.</exception>
    protected void ThrowIfNotEnded(short token)
    {
        if (_completion.GetStatus(token) == ValueTaskSourceStatus.Pending)
            throw new InvalidOperationException("The publish has not ended: await it before you take its result.");
    }

    /// <summary>Throws the failure if there is one, and resets the send for another call.</summary>
    protected void End(short token)
    {
        try
        {
            _completion.GetResult(token);
        }
        finally
        {
            // Waits for a running callback, which must not affect the next call.
            _registration.Dispose();
            _registration = default;
            _completion.Reset();
        }
    }

    // The queue and the caller's token forget the send here and not when its result is taken, because the caller may never take it.
    private void Complete(Exception? cause)
    {
        OpenNode.List?.Remove(OpenNode);
        UnsentNode.List?.Remove(UnsentNode);
        // A callback that is running waits for the lock that is held here, so End waits for it.
        if (_registration.Unregister())
            _registration = default;
        var failure = Finish(cause);
        IsComplete = true;
        // Success must not be reported for a send whose result throws.
        if (failure is null)
            _completion.SetResult(true);
        else
            _completion.SetException(failure);
    }
}

/// <summary>The messages of a batch or of one call, and the progress of their publishing. Guarded by the queue's lock.</summary>
internal abstract class PublishGroup
{
    private int _count;
    private int _next;

    // Messages of a lost connection, returned while the group had no owner, and messages that the owner before sent in vain. They are sent before _next.
    private SortedSet<int>? _resends;

    // Messages that the broker refused for now. They wait for the next owner.
    private List<int>? _deferred;

    /// <summary>The send that waits for the group; null while none does, and then its memory must not be read.</summary>
    public PublishSend? Owner { get; private set; }

    public int Unsettled { get; private set; }

    /// <summary>True when messages that the broker refuses for now are sent again by the next owner; false when their owner reports the refusal.</summary>
    public virtual bool SendsAgain => false;

    /// <summary>The broker's reason for refusing a message for now; null when it has refused none.</summary>
    public string? WhyDeferred { get; private set; }

    public bool HasUnsent => _next < _count || _resends is { Count: > 0 };

    /// <summary>The next message to send; there must be one.</summary>
    public int NextIndex => _resends is { Count: > 0 } ? _resends.Min : _next;

    public void Advance()
    {
        if (_resends is { Count: > 0 })
            _resends.Remove(_resends.Min);
        else
            _next++;
    }

    /// <summary>Reads the content of a message.</summary>
    /// <returns>The reason why it can't be published; a plain success when it can.</returns>
    public abstract MqttPublishResult Read(int index, ref PublishFields fields);

    public void Settle(int index, MqttPublishResult result)
    {
        Unsettled--;
        Record(index, result);
        EndIfDone();
    }

    /// <summary>Keeps a message that the broker refused for now until the next owner sends it again.</summary>
    public void Defer(int index, string reason)
    {
        (_deferred ??= []).Add(index);
        WhyDeferred ??= reason;
        EndIfDone();
    }

    /// <summary>Marks a message of a lost connection as unsent.</summary>
    public void Resend(int index) => (_resends ??= []).Add(index);

    public void Attach(PublishSend owner)
    {
        Owner = owner;
        WhyDeferred = null;
        if (_deferred is not { Count: > 0 })
            return;
        (_resends ??= []).UnionWith(_deferred);
        _deferred.Clear();
    }

    public virtual void Detach() => Owner = null;

    protected void Begin(PublishSend owner, int count)
    {
        Owner = owner;
        Unsettled = _count = count;
        _next = 0;
        _resends?.Clear();
        _deferred?.Clear();
        WhyDeferred = null;
    }

    protected abstract void Record(int index, MqttPublishResult result);

    private void EndIfDone()
    {
        if (Unsettled == (_deferred?.Count ?? 0))
            Owner?.GroupSettled();
    }
}
