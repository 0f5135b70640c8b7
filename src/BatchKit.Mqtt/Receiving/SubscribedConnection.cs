using BatchKit.Mqtt.Connections;
using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Publishing;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Receiving;

/// <summary>Receives the messages of one connection.</summary>
internal interface ISubscribedConnection : IPacketHandler
{
    /// <summary>Completes with the broker's next answer to subscriptions. Call it before they are sent.</summary>
    Task<SubackPacket> ExpectAnswer();

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
/// <param name="state">What is kept from connection to connection.</param>
/// <param name="lease">Whether it may deliver; null where it always may.</param>
/// <param name="abandon">Gives up the delivery under way. The connection's own token does not, because a delivery is finished even when the connection is lost.</param>
internal sealed class SubscribedConnection(
    IArrivals arrivals, BatchReceiver receiver, PacketOutput output, MqttVersion version, InboundState state, LeasedDelivery? lease, CancellationToken abandon)
    : ISubscribedConnection
{
    private volatile TaskCompletionSource<SubackPacket> _answer = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly ReceivedMessages _messages = new(arrivals, state);
    private volatile bool _isDelivering;

    public bool IsDelivering => _isDelivering;

    public Task<SubackPacket> ExpectAnswer() => (_answer = new(TaskCreationOptions.RunContinuationsAsynchronously)).Task;

    public void Handle(PacketHeader header, ReadOnlySpan<byte> body)
    {
        switch (header.Type)
        {
            case PacketType.Publish:
                _messages.Add(header, body, version);
                break;
            case PacketType.Pubrel:
                _messages.Release(body);
                break;
            case PacketType.Suback:
                _answer.TrySetResult(SubackPacket.Read(body, version));
                break;
            default:
                throw MqttProtocolException.Forbidden($"{header.Type} is not allowed for a client that publishes nothing.");
        }
    }

    public ValueTask FinishReadAsync(CancellationToken cancellationToken) => _messages.IsEmpty ? ValueTask.CompletedTask : DeliverAsync(cancellationToken);

    // The reader, which awaits the delivery, has ended with the connection.
    public Task CloseAsync() => Task.CompletedTask;

    private async ValueTask DeliverAsync(CancellationToken cancellationToken)
    {
        _isDelivering = true;
        try
        {
            if (lease is null || await lease.IsAllowedAsync(cancellationToken).ConfigureAwait(false))
                await _messages.DeliverAsync(receiver, output, abandon).ConfigureAwait(false);
            else
                _messages.Clear();
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
/// <param name="state">What is kept from connection to connection.</param>
/// <param name="lease">Whether it may deliver.</param>
/// <param name="previous">The delivery of the connection before, which must end first.</param>
/// <param name="abandon">Gives up the delivery under way.</param>
internal sealed class SharedConnection(PublishQueue publisher, Func<IArrivals> createArrivals, BatchReceiver receiver, PacketOutput output, MqttConnection connection,
    int maxPacketBytes, InboundState state, LeasedDelivery lease, Task previous, CancellationToken abandon) : ISubscribedConnection
{
    // The limit of waiting messages' memory, in packets of the maximum size. Nothing is read while more wait. With QoS 1 the Receive Maximum limits the number of messages too.
    private const int MaxWaitingPackets = 4;

    private volatile TaskCompletionSource<SubackPacket> _answer = new(TaskCreationOptions.RunContinuationsAsynchronously);

    // Guards the fields below; the reader collects while a delivery is under way.
    private readonly Lock _lock = new();
    private ReceivedMessages _collecting = new(createArrivals(), state);
    private ReceivedMessages _delivering = new(createArrivals(), state);
    private Task _running = previous;
    private bool _isDelivering;
    private bool _isClosed;

    public bool IsDelivering
    {
        get
        {
            lock (_lock)
                return _isDelivering;
        }
    }

    public Task<SubackPacket> ExpectAnswer() => (_answer = new(TaskCreationOptions.RunContinuationsAsynchronously)).Task;

    public void Handle(PacketHeader header, ReadOnlySpan<byte> body)
    {
        switch (header.Type)
        {
            case PacketType.Publish:
                lock (_lock)
                {
                    // A message that arrives later is not acknowledged, so the broker keeps it for the next connection.
                    if (!_isClosed)
                        _collecting.Add(header, body, connection.Version);
                }

                break;
            case PacketType.Pubrel:
                lock (_lock)
                {
                    if (!_isClosed)
                        _collecting.Release(body);
                }

                break;
            case PacketType.Suback:
                _answer.TrySetResult(SubackPacket.Read(body, connection.Version));
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
            {
                if (await lease.IsAllowedAsync(abandon).ConfigureAwait(false))
                    await messages.DeliverAsync(receiver, output, abandon).ConfigureAwait(false);
                else
                    messages.Clear();
            }
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
