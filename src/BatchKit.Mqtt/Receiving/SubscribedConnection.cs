using System.Text;
using BatchKit.Mqtt.Connections;
using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Publishing;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Receiving;

/// <summary>Receives the messages of one connection.</summary>
internal interface ISubscribedConnection : IPacketHandler
{
    /// <summary>Completes with the broker's answer to the subscriptions.</summary>
    Task<SubackPacket> Subscribed { get; }

    /// <summary>True while the next hop has not accepted the messages of the last delivery.</summary>
    bool IsDelivering { get; }

    /// <summary>Begins no more deliveries, and completes when the one under way has ended.</summary>
    Task CloseAsync();
}

/// <summary>Acknowledges messages after each read is delivered. Nothing is read during a delivery, so TCP holds up the broker.</summary>
/// <param name="arrivals">Collects and delivers the messages.</param>
/// <param name="receiver">Gets the messages.</param>
/// <param name="output">Writes the acknowledgements.</param>
/// <param name="version">The connection's version.</param>
/// <param name="abandon">Gives up the delivery under way. The connection's own token does not, because a delivery is finished even when the connection is lost.</param>
internal sealed class SubscribedConnection(IArrivals arrivals, BatchReceiver receiver, PacketOutput output, MqttVersion version, CancellationToken abandon)
    : ISubscribedConnection
{
    private readonly TaskCompletionSource<SubackPacket> _subscribed = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly ReceivedMessages _messages = new(arrivals);
    private volatile bool _isDelivering;

    public Task<SubackPacket> Subscribed => _subscribed.Task;

    public bool IsDelivering => _isDelivering;

    public void Handle(PacketHeader header, ReadOnlySpan<byte> body)
    {
        switch (header.Type)
        {
            case PacketType.Publish:
                _messages.Add(PublishPacket.Read(header, body, version));
                break;
            case PacketType.Suback:
                _subscribed.TrySetResult(SubackPacket.Read(body, version));
                break;
            default:
                throw MqttProtocolException.Forbidden($"{header.Type} is not allowed for a client that publishes nothing and subscribes with QoS 1 at most.");
        }
    }

    public ValueTask FinishReadAsync(CancellationToken cancellationToken) => _messages.IsEmpty ? ValueTask.CompletedTask : DeliverAsync();

    // The reader, which awaits the delivery, has ended with the connection.
    public Task CloseAsync() => Task.CompletedTask;

    private async ValueTask DeliverAsync()
    {
        _isDelivering = true;
        try
        {
            await _messages.DeliverAsync(receiver, output, abandon).ConfigureAwait(false);
        }
        finally
        {
            _isDelivering = false;
        }
    }
}

/// <summary>
/// Receives the messages of a connection that also publishes. It keeps reading during a delivery, because the next hop may wait for the acknowledgement of its own publish.
/// </summary>
/// <param name="publisher">Gets all other packets.</param>
/// <param name="createArrivals">Creates what collects and delivers the messages.</param>
/// <param name="receiver">Gets the messages.</param>
/// <param name="output">Writes the acknowledgements.</param>
/// <param name="connection">The connection.</param>
/// <param name="maxPacketBytes">The largest packet.</param>
/// <param name="previous">The delivery of the connection before, which must end first.</param>
/// <param name="abandon">Gives up the delivery under way.</param>
internal sealed class SharedConnection(PublishQueue publisher, Func<IArrivals> createArrivals, BatchReceiver receiver, PacketOutput output, MqttConnection connection,
    int maxPacketBytes, Task previous, CancellationToken abandon) : ISubscribedConnection
{
    // The limit of waiting payloads, in packets of the maximum size. Nothing is read while more wait. With QoS 1 the Receive Maximum limits the number of messages too.
    private const int MaxWaitingPackets = 4;

    private readonly TaskCompletionSource<SubackPacket> _subscribed = new(TaskCreationOptions.RunContinuationsAsynchronously);

    // Guards the fields below; the reader collects while a delivery is under way.
    private readonly Lock _lock = new();
    private ReceivedMessages _collecting = new(createArrivals());
    private ReceivedMessages _delivering = new(createArrivals());
    private Task _running = previous;
    private bool _isDelivering;
    private bool _isClosed;

    public Task<SubackPacket> Subscribed => _subscribed.Task;

    public bool IsDelivering
    {
        get
        {
            lock (_lock)
                return _isDelivering;
        }
    }

    public void Handle(PacketHeader header, ReadOnlySpan<byte> body)
    {
        switch (header.Type)
        {
            case PacketType.Publish:
                var publish = PublishPacket.Read(header, body, connection.Version);
                lock (_lock)
                {
                    // A message that arrives later is not acknowledged, so the broker keeps it for the next connection.
                    if (!_isClosed)
                        _collecting.Add(publish);
                }

                break;
            case PacketType.Suback:
                _subscribed.TrySetResult(SubackPacket.Read(body, connection.Version));
                break;
            default:
                publisher.Handle(header, body);
                break;
        }
    }

    public void HandlePing() => publisher.HandlePing();

    public ValueTask FinishReadAsync(CancellationToken cancellationToken)
    {
        Task running;
        lock (_lock)
        {
            if (!_isDelivering && !_isClosed && !_collecting.IsEmpty)
            {
                _isDelivering = true;
                var before = _running;
                _running = Task.Run(() => DeliverAsync(before), CancellationToken.None);
            }

            running = _collecting.Bytes > (long)MaxWaitingPackets * maxPacketBytes ? _running : Task.CompletedTask;
        }

        var flushed = publisher.FinishReadAsync(cancellationToken);
        return running.IsCompleted ? flushed : WaitAsync(running, cancellationToken);
    }

    public Task CloseAsync()
    {
        lock (_lock)
        {
            if (!_isClosed)
                _collecting.Clear();
            _isClosed = true;
            return _running;
        }
    }

    private static async ValueTask WaitAsync(Task running, CancellationToken cancellationToken) =>
        await running.WaitAsync(cancellationToken).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);

    private async Task DeliverAsync(Task before)
    {
        await before.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        try
        {
            while (TryTake() is { } messages)
                await messages.DeliverAsync(receiver, output, abandon).ConfigureAwait(false);
        }
        catch (Exception exception)
        {
            // The broker sends unacknowledged messages again over the next connection.
            connection.Abandon($"Delivering failed unexpectedly with {exception.GetType().Name}.");
        }
    }

    private ReceivedMessages? TryTake()
    {
        lock (_lock)
        {
            _isDelivering = !_isClosed && !_collecting.IsEmpty && !abandon.IsCancellationRequested;
            if (!_isDelivering)
                return null;
            (_collecting, _delivering) = (_delivering, _collecting);
            return _delivering;
        }
    }
}

/// <summary>Messages that are delivered together, and their acknowledgements. Not thread-safe.</summary>
internal sealed class ReceivedMessages(IArrivals arrivals)
{
    private byte[] _acknowledgements = new byte[64 * PubackPacket.Bytes];
    private int _acknowledgementBytes;

    public bool IsEmpty => arrivals.IsEmpty && _acknowledgementBytes == 0;

    /// <summary>The bytes of all payloads.</summary>
    public long Bytes { get; private set; }

    public void Add(in ReceivedPublish publish)
    {
        if (publish.TopicAlias != 0)
            throw new MqttProtocolException(MqttReasonCode.TopicAliasInvalid, "The broker used a topic alias, which this client does not allow.");
        if (publish.QualityOfService == MqttQualityOfService.ExactlyOnce)
            throw new MqttProtocolException(MqttReasonCode.QoSNotSupported, "The broker sent a message with QoS 2, which no subscription asked for.");
        if (publish.OmittedBytes > 0)
            Log.MessageOmitted(arrivals.Logger, MqttTopics.Show(Encoding.UTF8.GetString(publish.Topic)), publish.OmittedBytes);
        else
            arrivals.Add(publish);
        Bytes += publish.Payload.Length;
        if (publish.QualityOfService == MqttQualityOfService.AtMostOnce)
            return;
        if (_acknowledgementBytes == _acknowledgements.Length)
            Array.Resize(ref _acknowledgements, 2 * _acknowledgements.Length);
        PubackPacket.Write(_acknowledgements.AsSpan(_acknowledgementBytes), publish.PacketId);
        _acknowledgementBytes += PubackPacket.Bytes;
    }

    public async ValueTask DeliverAsync(BatchReceiver receiver, PacketOutput output, CancellationToken abandon)
    {
        try
        {
            await arrivals.DeliverAsync(receiver, abandon).ConfigureAwait(false);
            output.Append(_acknowledgements.AsSpan(0, _acknowledgementBytes));
            output.Flush();
        }
        catch (OperationCanceledException) when (abandon.IsCancellationRequested)
        {
            // The messages are not acknowledged, so the broker keeps them for the next receiver.
        }
        finally
        {
            (_acknowledgementBytes, Bytes) = (0, 0);
        }
    }

    public void Clear()
    {
        arrivals.Clear();
        (_acknowledgementBytes, Bytes) = (0, 0);
    }
}
