using System.Globalization;
using System.Runtime.InteropServices;
using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.RabbitMQ;

/// <summary>Addresses a sender's frames: to one node, to all, or to the nodes with members of the frame's groups. See docs/decisions/0097.</summary>
/// <remarks>
/// A node binds a group's key when the group gets its first member there. Until the node has confirmed that, this names the node beside the groups' keys in each frame with output for the group. Where the
/// sender does not know what is bound, the frame goes to all nodes.
/// </remarks>
internal sealed class RabbitMqGroupRouting(RabbitMqOptions options, RabbitMqTopology topology, TimeProvider timeProvider, ILogger logger) : IAsyncDisposable
{
    // More nodes than this in one frame's key list are all nodes.
    private const int MaxNamedNodes = 64;

    // A text in a list of AMQP: its type and its length.
    private const int KeyOverhead = 5;

    // A node that has not answered is asked again with the next frame after this time: its answer may have been lost with a connection.
    private static readonly TimeSpan AskInterval = TimeSpan.FromSeconds(1);

    // Without it, all output for groups goes to all nodes, and joins need no confirmation.
    private readonly bool _isEnabled = options is { RouteGroupsByMembers: true, DeclareTopology: true, DestinationNode: null };

    private readonly RabbitMqClosings _closings = new(timeProvider);

    // Held while it begins to listen.
    private readonly SemaphoreSlim _listening = new(1, 1);
    private volatile Listener? _listener;

    private long _rejectedTimestamp;
    private volatile bool _wasRejected;

    // Guards the fields below.
    private readonly Lock _lock = new();
    private readonly Dictionary<int, RabbitMqNodeJoins> _nodes = [];
    private long _moment;

    private volatile bool _hasJoins;

    /// <summary>Listens for confirmations, when the send is the connection's first one with a join or output for groups.</summary>
    /// <exception cref="TimeoutException">The broker did not answer.</exception>
    public ValueTask PrepareAsync(OpenChannel open, ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) =>
        !_isEnabled || IsListening(open) || !ConcernsGroups(batches.Span) ? default : ListenAsync(open, cancellationToken);

    /// <summary>True when group output reaches each node that needs it by the groups' keys.</summary>
    /// <remarks>
    /// False shortly after connecting: after a restart the broker may have forgotten the latest bindings, and receivers may still have to connect. False also shortly after the broker has rejected a frame.
    /// </remarks>
    public bool IsCertain(OpenChannel open) =>
        _listener is { Key: not null, HasEnded: false } listener && listener.Owner == open
        && timeProvider.GetElapsedTime(open.OpenedTimestamp) >= options.UnroutableGrace && !IsRejectionRecent();

    /// <summary>The broker has rejected a frame. With several frames for groups, one that is rejected while a later one is taken could not be sent again.</summary>
    public void Reject()
    {
        Volatile.Write(ref _rejectedTimestamp, timeProvider.GetTimestamp());
        _wasRejected = true;
    }

    /// <summary>Addresses a frame, and notes the joins in it. Call it right before the publish, in the order of the publishes, and <see cref="Settle"/> when the publish has ended.</summary>
    public FrameAddress Address(PlannedFrame frame, OpenChannel open)
    {
        var properties = new BasicProperties
        {
            Persistent = options.Durable,
            ContentType = RabbitMqFrameProperties.ContentType,
            Type = RabbitMqFrameProperties.Type,
            AppId = RabbitMqFrameProperties.AppId,
        };
        if (!frame.Destination.IsAll)
            return AddressNode(frame, properties);
        if (frame.Destination == FrameDestination.All)
            return new FrameAddress(RabbitMqKeys.AllNodes, Copying(properties, [RabbitMqKeys.EveryNode]), IsMandatory: true);
        var groups = frame.Groups.Select(RabbitMqTopology.GroupKey).ToArray();
        var keys = new List<object?>(groups);
        if (_hasJoins)
            AddUnconfirmed(groups, keys, properties);
        if (!FitHeader(keys, open.Connection.FrameMax))
            keys = [RabbitMqKeys.EveryNode];
        // A group without members on any node reaches no queue, and that is no error. Mandatory, the frame would come back with all its bytes.
        return new FrameAddress(RabbitMqKeys.AllNodes, Copying(properties, keys), IsMandatory: false);
    }

    /// <summary>The publish of a frame has ended. Whatever became of it, what is published from now on comes behind it.</summary>
    public void Settle(in FrameAddress address)
    {
        if (address.Joins is not { } keys)
            return;
        lock (_lock)
        {
            if (_nodes.TryGetValue(address.Node, out var node) && node.Settle(keys, address.Moment, ++_moment))
                _nodes.Remove(address.Node);
            _hasJoins = _nodes.Count > 0;
        }
    }

    /// <summary>A node has no queue any more, so it has no members.</summary>
    public void Forget(int node)
    {
        if (!_hasJoins)
            return;
        lock (_lock)
        {
            _nodes.Remove(node);
            _hasJoins = _nodes.Count > 0;
        }
    }

    /// <summary>A node has bound the keys of all joins that it got before and with a frame.</summary>
    public void Confirm(int node, long frame)
    {
        lock (_lock)
        {
            if (_nodes.TryGetValue(node, out var joins) && joins.Confirm(frame))
                _nodes.Remove(node);
            _hasJoins = _nodes.Count > 0;
        }
    }

    public async ValueTask DisposeAsync()
    {
        End(_listener);
        await _closings.WaitAsync(RabbitMqClosings.Limit).ConfigureAwait(false);
    }

    private bool IsListening(OpenChannel open) => _listener is { HasEnded: false } listener && listener.Owner == open;

    private bool IsRejectionRecent() => _wasRejected && timeProvider.GetElapsedTime(Volatile.Read(ref _rejectedTimestamp)) < options.UnroutableGrace;

    private static bool ConcernsGroups(ReadOnlySpan<MessageBatch> batches)
    {
        foreach (var batch in batches)
        {
            if (!batch.Handle.IsConnection || HasControl(batch))
                return true;
        }

        return false;
    }

    private static bool HasControl(MessageBatch batch)
    {
        foreach (var header in batch.Headers)
        {
            if (header?.Kind == MessageKind.Control)
                return true;
        }

        return false;
    }

    private static BasicProperties Copying(BasicProperties properties, List<object?> keys)
    {
        properties.Headers = new Dictionary<string, object?>(StringComparer.Ordinal) { ["CC"] = keys };
        return properties;
    }

    private static List<string>? FindJoins(PlannedFrame frame)
    {
        List<string>? keys = null;
        foreach (var batch in frame.Batches)
        {
            for (var index = 0; index < batch.Headers.Length; index++)
            {
                if (batch.Headers[index]?.Kind == MessageKind.Control && ControlMessage.TryRead(batch[index].Payload.Span, out var control) && control.Operation == ControlOperation.JoinGroup)
                    (keys ??= []).Add(RabbitMqTopology.GroupKey(control.Group));
            }
        }

        return keys;
    }

    private FrameAddress AddressNode(PlannedFrame frame, BasicProperties properties)
    {
        var number = frame.Destination.Node;
        var key = RabbitMqKeys.Node(number);
        var joins = _isEnabled ? FindJoins(frame) : null;
        if (joins is null && !_hasJoins)
            return new FrameAddress(key, properties, IsMandatory: true);
        lock (_lock)
        {
            var moment = ++_moment;
            if (joins is not null)
            {
                var node = CollectionsMarshal.GetValueRefOrAddDefault(_nodes, number, out _) ??= new RabbitMqNodeJoins();
                node.Begin(joins, moment);
                _hasJoins = true;
                Ask(node, properties, moment);
            }
            else if (_nodes.TryGetValue(number, out var node) && IsDue(node))
            {
                Ask(node, properties, moment);
            }

            return new FrameAddress(key, properties, IsMandatory: true, number, joins, moment);
        }
    }

    private void AddUnconfirmed(string[] groups, List<object?> keys, BasicProperties properties)
    {
        lock (_lock)
        {
            foreach (var (number, node) in _nodes)
            {
                if (!Array.Exists(groups, node.MayLack))
                    continue;
                if (keys.Count >= groups.Length + MaxNamedNodes)
                {
                    keys.Clear();
                    keys.Add(RabbitMqKeys.EveryNode);
                    return;
                }

                keys.Add(RabbitMqKeys.Node(number));
                if (IsDue(node))
                    Ask(node, properties, ++_moment);
            }
        }
    }

    // The broker ends a connection over a header that exceeds AMQP's frame; zero is no limit. The other half is for all other properties.
    private static bool FitHeader(List<object?> keys, uint frameMax) => frameMax == 0 || keys.Sum(static key => KeyOverhead + ((string)key!).Length) <= frameMax / 2;

    private bool IsDue(RabbitMqNodeJoins node) => timeProvider.GetElapsedTime(node.AskedTimestamp) >= AskInterval;

    private void Ask(RabbitMqNodeJoins node, BasicProperties properties, long moment)
    {
        if (_listener is not { Key: { } key })
            return;
        node.AskedTimestamp = timeProvider.GetTimestamp();
        properties.ReplyTo = key;
        properties.CorrelationId = moment.ToString(CultureInfo.InvariantCulture);
    }

    private async ValueTask ListenAsync(OpenChannel open, CancellationToken cancellationToken)
    {
        await _listening.WaitAsync(cancellationToken).ConfigureAwait(false);
        try
        {
            if (IsListening(open))
                return;
            var earlier = _listener;
            _listener = await CreateListenerInTimeAsync(open, cancellationToken).ConfigureAwait(false);
            End(earlier);
        }
        finally
        {
            _listening.Release();
        }
    }

    // Calls of the client may never end when their connection is lost (version 7.2.2, issues 1968 and 1976), and other sends wait for this one.
    private async Task<Listener> CreateListenerInTimeAsync(OpenChannel open, CancellationToken cancellationToken)
    {
        var attempt = CreateListenerAsync(open, cancellationToken);
        try
        {
            return await attempt.WaitAsync(options.PublishTimeout, timeProvider, cancellationToken).ConfigureAwait(false);
        }
        catch
        {
            _closings.Start(attempt, listener => RabbitMqEnd.EndAsync(listener.Channel, timeProvider));
            throw;
        }
    }

    /// <returns>A listener without a key where the broker refuses to declare one: group output then goes to all nodes.</returns>
    private async Task<Listener> CreateListenerAsync(OpenChannel open, CancellationToken cancellationToken)
    {
        // A channel of its own, because the broker closes a channel on which a declaration is refused.
        var channel = await open.Connection.CreateChannelAsync(cancellationToken: cancellationToken).ConfigureAwait(false);
        var listener = new Listener(open, channel, RabbitMqTopology.CreateReplyKey(), this);
        try
        {
            await topology.ListenAsync(channel, listener.Key!, listener, cancellationToken).ConfigureAwait(false);
            return listener;
        }
        catch (OperationInterruptedException refusal) when (open.Connection.IsOpen)
        {
            Log.GroupsGoToAll(logger, refusal.ShutdownReason?.ReplyText ?? FailureText.MessageOf(refusal));
            return new Listener(open, channel, key: null, this);
        }
        catch
        {
            End(listener);
            throw;
        }
    }

    // Not awaited: a send waits, and all others wait for it. The client may take long to end a channel whose connection was lost.
    private void End(Listener? listener)
    {
        if (listener is not null)
            _closings.Start(listener.Channel);
    }

    /// <summary>Gets the nodes' confirmations over one connection.</summary>
    private sealed class Listener(OpenChannel owner, IChannel channel, string? key, RabbitMqGroupRouting routing) : AsyncDefaultBasicConsumer(channel)
    {
        private volatile bool _hasEnded;

        public OpenChannel Owner => owner;

        public string? Key => key;

        /// <summary>True when no more confirmations will come, as when someone has deleted the queue.</summary>
        public bool HasEnded => _hasEnded;

        public override Task HandleBasicDeliverAsync(string consumerTag, ulong deliveryTag, bool redelivered, string exchange, string routingKey,
            IReadOnlyBasicProperties properties, ReadOnlyMemory<byte> body, CancellationToken cancellationToken = default)
        {
            if (int.TryParse(properties.MessageId, NumberStyles.None, CultureInfo.InvariantCulture, out var node)
                && long.TryParse(properties.CorrelationId, NumberStyles.None, CultureInfo.InvariantCulture, out var frame))
            {
                routing.Confirm(node, frame);
            }

            return Task.CompletedTask;
        }

        public override Task HandleBasicCancelAsync(string consumerTag, CancellationToken cancellationToken = default)
        {
            _hasEnded = true;
            return base.HandleBasicCancelAsync(consumerTag, cancellationToken);
        }

        public override Task HandleChannelShutdownAsync(object channel, ShutdownEventArgs reason)
        {
            _hasEnded = true;
            return base.HandleChannelShutdownAsync(channel, reason);
        }
    }
}
