using System.Globalization;
using System.Security.Cryptography;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using RabbitMQ.Client;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.RabbitMQ;

/// <summary>Binds the keys of the groups that have members on this node, and confirms that to the senders of joins. See docs/decisions/0097.</summary>
/// <remarks>
/// While something is not bound, the queue is bound to the output of all groups. It is for ever where the next hop does not know its members (<paramref name="members"/> is null), where members are not to
/// decide, and where the broker refuses to bind.
/// </remarks>
internal sealed class RabbitMqGroupBindings(RabbitMqTopology topology, IGroupMembership? members, TimeSpan holdLimit, TimeProvider timeProvider, ILogger logger) : IDisposable
{
    // With more groups to bind, the queue takes all output meanwhile: one binding instead of a wait for these.
    private const int MaxMissing = 256;
    private const int MaxBoundAtOnce = 512;
    private const int MaxReplies = 10_000;

    // How long a group without members stays bound, at least: players come and go.
    private static readonly TimeSpan Linger = TimeSpan.FromSeconds(1);

    private readonly string _watch = RandomNumberGenerator.GetHexString(16, lowercase: true);

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

    /// <summary>Binds and confirms over one connection until it is cancelled.</summary>
    /// <returns>Why the connection must be replaced; null when it was cancelled.</returns>
    public async Task<string?> RunAsync(IConnection connection, int node, CancellationToken cancellationToken)
    {
        IChannel? channel = null;
        try
        {
            while (true)
            {
                try
                {
                    channel ??= await connection.CreateChannelAsync(cancellationToken: cancellationToken).ConfigureAwait(false);
                    await WorkAsync(connection, channel, node, cancellationToken).ConfigureAwait(false);
                }
                catch (OperationInterruptedException) when (connection.IsOpen && StaysOnAll)
                {
                    // Without the right to publish there are no confirmations, and senders go on naming this node.
                    await Task.Delay(Timeout.InfiniteTimeSpan, timeProvider, cancellationToken).ConfigureAwait(false);
                }
                catch (OperationInterruptedException refusal) when (connection.IsOpen && TryRefuse())
                {
                    Log.GroupsNotBound(logger, topology.Queue(node), refusal.ShutdownReason?.ReplyText ?? refusal.Message);
                    await channel!.DisposeAsync().ConfigureAwait(false);
                    channel = null;
                }
            }
        }
        catch (OperationCanceledException) when (cancellationToken.IsCancellationRequested)
        {
            return null;
        }
        catch (Exception exception)
        {
            return $"Its groups could not be bound: {exception.Message}";
        }
        finally
        {
            if (channel is not null)
                await EndAsync(channel).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
    }

    /// <summary>Looks whether the exchange still has the bindings, and binds all again when it has not.</summary>
    public async Task CheckAsync(IConnection connection, CancellationToken cancellationToken)
    {
        lock (_lock)
        {
            if (members is null || _isRefused || _mustRenew)
                return;
        }

        if (await topology.FindWatchAsync(connection, _watch, cancellationToken).ConfigureAwait(false))
            return;
        lock (_lock)
        {
            _mustRenew = true;
            _work.TrySetResult();
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

    private async Task WorkAsync(IConnection connection, IChannel channel, int node, CancellationToken cancellationToken)
    {
        var lingered = timeProvider.GetTimestamp();
        while (true)
        {
            if (IsRenewalDue())
                await RenewAsync(connection, channel, node, cancellationToken).ConfigureAwait(false);
            if (IsBacklogged())
                await GoToAllAsync(channel, node, cancellationToken).ConfigureAwait(false);
            var ages = timeProvider.GetElapsedTime(lingered) >= Linger;
            if (ages)
                lingered = timeProvider.GetTimestamp();
            var work = Take(ages);
            await topology.BindGroupsAsync(channel, node, work.Bound, work.Unbound, cancellationToken).ConfigureAwait(false);
            foreach (var reply in work.Replies)
                await ReplyAsync(channel, node, reply).ConfigureAwait(false);
            if (Finish(out var next))
                await topology.GiveUpAllAsync(channel, node, cancellationToken).ConfigureAwait(false);
            await next.WaitAsync(Linger, timeProvider, cancellationToken).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            cancellationToken.ThrowIfCancellationRequested();
        }
    }

    private bool IsRenewalDue()
    {
        lock (_lock)
            return _mustRenew && members is not null && !_isRefused;
    }

    private async Task RenewAsync(IConnection connection, IChannel channel, int node, CancellationToken cancellationToken)
    {
        await GoToAllAsync(channel, node, cancellationToken).ConfigureAwait(false);
        await topology.RenewGroupExchangeAsync(channel, node, cancellationToken).ConfigureAwait(false);
        await topology.BindWatchAsync(channel, _watch, cancellationToken).ConfigureAwait(false);
        // Without the right to publish, nothing would tell that the bindings are gone.
        if (!await topology.FindWatchAsync(connection, _watch, cancellationToken).ConfigureAwait(false))
            return;
        lock (_lock)
        {
            _mustRenew = false;
            _bound.Clear();
            _emptied.Clear();
            _emptiedBefore.Clear();
            _missing.UnionWith(members!.GetGroups());
        }
    }

    private bool IsBacklogged()
    {
        lock (_lock)
            return !_takesAll && _missing.Count > MaxMissing;
    }

    private async Task GoToAllAsync(IChannel channel, int node, CancellationToken cancellationToken)
    {
        await topology.TakeAllAsync(channel, node, cancellationToken).ConfigureAwait(false);
        lock (_lock)
            TakeAllLocked();
    }

    private GroupWork Take(bool ages)
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
    /// <returns>True when the queue is to give up the output of all groups. From then on a group that is added counts as missing.</returns>
    private bool Finish(out Task next)
    {
        lock (_lock)
        {
            _takenBound?.TrySetResult();
            _takenBound = null;
            _isBinding = _missingBound is not null;
            next = _work.Task;
            if (_missing.Count > 0)
                _work.TrySetResult();
            if (!_takesAll || members is null || _isRefused || _mustRenew || _missing.Count > 0)
                return false;
            _takesAll = false;
            return true;
        }
    }

    /// <returns>True when the queue takes the output of all groups: then it goes on doing so.</returns>
    private bool TryRefuse()
    {
        lock (_lock)
            return _takesAll && !_isRefused && (_isRefused = true);
    }

    private void TakeAllLocked()
    {
        _takesAll = true;
        _missingBound?.TrySetResult();
        _takenBound?.TrySetResult();
        (_missingBound, _takenBound) = (null, null);
        _isBinding = false;
    }

    // An application's connection lives on, and so would the queue.
    private async Task EndAsync(IChannel channel)
    {
        if (channel.IsOpen)
            await topology.DeleteWatchAsync(channel, _watch).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        await channel.DisposeAsync().ConfigureAwait(false);
    }

    private ValueTask ReplyAsync(IChannel channel, int node, GroupReply reply)
    {
        var properties = new BasicProperties { MessageId = node.ToString(CultureInfo.InvariantCulture), CorrelationId = reply.Frame };
        return channel.BasicPublishAsync(topology.Exchange, reply.Key, mandatory: false, properties, ReadOnlyMemory<byte>.Empty, CancellationToken.None);
    }

    /// <summary>A sender that waits for a confirmation.</summary>
    private readonly record struct GroupReply(string Key, string? Frame);

    /// <summary>What is done at once: groups to bind and to unbind, and then replies.</summary>
    private readonly record struct GroupWork(IReadOnlyList<string> Bound, IReadOnlyList<string> Unbound, IReadOnlyList<GroupReply> Replies);
}
