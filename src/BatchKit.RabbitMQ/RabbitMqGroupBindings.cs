using BatchKit.Transports;

namespace BatchKit.RabbitMQ;

/// <summary>The groups that have members on this node, those of them that are bound, and the sends and senders that wait for a binding. See docs/decisions/0097.</summary>
/// <remarks>
/// While something is not bound, the queue is bound to the output of all groups. It stays so where the next hop does not know its members (<paramref name="members"/> is null), and where the broker refuses
/// to bind.
/// </remarks>
internal sealed class RabbitMqGroupBindings(IGroupMembership? members, TimeSpan holdLimit, TimeProvider timeProvider) : IDisposable
{
    // With more groups to bind, the queue takes all output meanwhile: one binding instead of a wait for these.
    private const int MaxMissing = 256;
    private const int MaxBoundAtOnce = 512;
    private const int MaxReplies = 10_000;

    // Guards all fields below.
    private readonly Lock _lock = new();
    private readonly HashSet<string> _bound = new(StringComparer.Ordinal);
    private readonly HashSet<string> _missing = new(StringComparer.Ordinal);
    private readonly Queue<GroupReply> _replies = new();
    private HashSet<string> _emptied = new(StringComparer.Ordinal);
    private HashSet<string> _emptiedBefore = new(StringComparer.Ordinal);
    private IDisposable? _watching;
    private bool _takesAll = true;
    private bool _isRefused;
    private bool _mustRenew = true;
    private long _missingSince;
    private TaskCompletionSource? _missingBound;
    private TaskCompletionSource? _takenBound;
    private TaskCompletionSource _work = NewSignal();

    // Read without the lock before each send.
    private volatile bool _isBinding;

    /// <summary>True while the queue is bound to the output of all groups.</summary>
    public bool TakesAll
    {
        get
        {
            lock (_lock)
                return _takesAll;
        }
    }

    /// <summary>True when the queue is to be bound to the output of all groups for as long as the connection lasts.</summary>
    public bool StaysOnAll
    {
        get
        {
            lock (_lock)
                return members is null || _isRefused;
        }
    }

    /// <summary>Completes when the groups that have members now are bound. A send waits for it: its answer may be output for one of them.</summary>
    /// <remarks>It does not wait for longer than the limit, so that a receiver that can't bind does not stop the senders.</remarks>
    public ValueTask WhenBoundAsync(CancellationToken cancellationToken) => _isBinding ? WaitAsync(cancellationToken) : default;

    /// <summary>A new connection's queue is bound to the output of all groups, and what else it is bound to is not known.</summary>
    public void Begin()
    {
        lock (_lock)
        {
            if (members is not null)
                _watching ??= members.Watch(OnChanged);
            _isRefused = false;
            _mustRenew = true;
            TakeAllLocked();
        }
    }

    /// <summary>Confirms to a sender, as soon as they are bound, the joins up to the frame that asks for it.</summary>
    public void Confirm(string replyTo, string? frame)
    {
        lock (_lock)
        {
            if (_replies.Count == MaxReplies)
                _replies.Dequeue();
            _replies.Enqueue(new GroupReply(replyTo, frame));
            _work.TrySetResult();
        }
    }

    public void Dispose()
    {
        lock (_lock)
        {
            _watching?.Dispose();
            TakeAllLocked();
        }
    }

    private static TaskCompletionSource NewSignal() => new(TaskCreationOptions.RunContinuationsAsynchronously);

    private void OnChanged(string group)
    {
        lock (_lock)
        {
            if (!members!.HasMembers(group))
            {
                _missing.Remove(group);
                if (_bound.Contains(group))
                    _emptied.Add(group);
                return;
            }

            if (_bound.Contains(group) || !_missing.Add(group))
                return;
            if (!_takesAll && _missingBound is null)
            {
                _missingBound = NewSignal();
                _missingSince = timeProvider.GetTimestamp();
                _isBinding = true;
            }

            _work.TrySetResult();
        }
    }

    private async ValueTask WaitAsync(CancellationToken cancellationToken)
    {
        Task bound;
        TimeSpan left;
        lock (_lock)
        {
            bound = (_missingBound ?? _takenBound)?.Task ?? Task.CompletedTask;
            left = holdLimit - timeProvider.GetElapsedTime(_missingSince);
        }

        if (bound.IsCompleted || left <= TimeSpan.Zero)
            return;
        try
        {
            await bound.WaitAsync(left, timeProvider, cancellationToken).ConfigureAwait(false);
        }
        catch (TimeoutException)
        {
            // The send goes out all the same. Its answer may miss a new member, and waiting for longer would stop the node's output.
        }
    }

    /// <summary>True when it is not known what the broker has bound.</summary>
    public bool IsRenewalDue
    {
        get
        {
            lock (_lock)
                return _mustRenew && members is not null && !_isRefused;
        }
    }

    /// <summary>True when so much is missing that the queue is to take the output of all groups meanwhile.</summary>
    public bool IsBacklogged
    {
        get
        {
            lock (_lock)
                return !_takesAll && _missing.Count > MaxMissing;
        }
    }

    /// <summary>True while the bindings are known, so that they can be lost.</summary>
    public bool CanBeLost
    {
        get
        {
            lock (_lock)
                return members is not null && !_isRefused && !_mustRenew;
        }
    }

    /// <summary>Someone has deleted the bindings.</summary>
    public void Lose()
    {
        lock (_lock)
        {
            _mustRenew = true;
            _work.TrySetResult();
        }
    }

    /// <summary>The queue is bound to the output of all groups.</summary>
    public void TakeAll()
    {
        lock (_lock)
            TakeAllLocked();
    }

    /// <summary>No group is bound.</summary>
    public void Renew()
    {
        lock (_lock)
        {
            _mustRenew = false;
            _bound.Clear();
            _emptied.Clear();
            _emptiedBefore.Clear();
            _missing.UnionWith(members!.GetGroups());
        }
    }

    /// <summary>Takes what is to be done next. What it says is to be bound counts as bound.</summary>
    /// <param name="ages">Whether groups that had lost their last member when this was true before are to be unbound.</param>
    public GroupWork Take(bool ages)
    {
        lock (_lock)
        {
            _work = NewSignal();
            if (members is null || _isRefused || _mustRenew)
                return new GroupWork([], [], TakeRepliesLocked());
            var bound = new List<string>(Math.Min(_missing.Count, MaxBoundAtOnce));
            foreach (var group in _missing)
            {
                if (bound.Count == MaxBoundAtOnce)
                    break;
                bound.Add(group);
            }

            _missing.ExceptWith(bound);
            _bound.UnionWith(bound);
            if (_missing.Count == 0)
                (_takenBound, _missingBound) = (_missingBound, null);
            // Replies wait for the groups behind which they stand.
            return new GroupWork(bound, ages ? TakeEmptiedLocked() : [], _takesAll || _missing.Count == 0 ? TakeRepliesLocked() : []);
        }
    }

    private GroupReply[] TakeRepliesLocked()
    {
        var replies = _replies.ToArray();
        _replies.Clear();
        return replies;
    }

    private List<string> TakeEmptiedLocked()
    {
        var unbound = _emptiedBefore.Where(group => !members!.HasMembers(group) && _bound.Remove(group)).ToList();
        _emptiedBefore.Clear();
        (_emptied, _emptiedBefore) = (_emptiedBefore, _emptied);
        return unbound;
    }

    /// <summary>What was taken is bound.</summary>
    /// <param name="next">Completes when there is more to do.</param>
    /// <returns>True when the queue is to give up the output of all groups. From then on a group that is added counts as missing.</returns>
    public bool Finish(out Task next)
    {
        lock (_lock)
        {
            _takenBound?.TrySetResult();
            _takenBound = null;
            _isBinding = _missingBound is not null;
            next = _work.Task;
            // What can't be bound now does not make more to do.
            if (_missing.Count > 0 && !_isRefused && !_mustRenew)
                _work.TrySetResult();
            if (!_takesAll || members is null || _isRefused || _mustRenew || _missing.Count > 0)
                return false;
            _takesAll = false;
            return true;
        }
    }

    /// <summary>The broker has refused to bind.</summary>
    /// <returns>True when the queue takes the output of all groups: then it goes on doing so.</returns>
    public bool TryRefuse()
    {
        lock (_lock)
        {
            if (!_takesAll || _isRefused)
                return false;
            _isRefused = true;
            return true;
        }
    }

    private void TakeAllLocked()
    {
        _takesAll = true;
        _missingBound?.TrySetResult();
        _takenBound?.TrySetResult();
        (_missingBound, _takenBound) = (null, null);
        _isBinding = false;
    }
}

/// <summary>A sender that waits for a confirmation.</summary>
/// <param name="Key">The key of its queue.</param>
/// <param name="Frame">Its name for the frame that asked.</param>
internal readonly record struct GroupReply(string Key, string? Frame);

/// <summary>What is done at once: groups to bind and to unbind, and then replies.</summary>
internal readonly record struct GroupWork(IReadOnlyList<string> Bound, IReadOnlyList<string> Unbound, IReadOnlyList<GroupReply> Replies);

/// <summary>Makes the senders of a process wait until the groups with members on its node are bound.</summary>
internal sealed class RabbitMqGroupHold
{
    // Replaced as a whole when a receiver is created.
    private volatile RabbitMqGroupBindings[] _bindings = [];

    public void Add(RabbitMqGroupBindings bindings) => _bindings = [.. _bindings, bindings];

    public async ValueTask WaitAsync(CancellationToken cancellationToken)
    {
        foreach (var bindings in _bindings)
            await bindings.WhenBoundAsync(cancellationToken).ConfigureAwait(false);
    }
}
