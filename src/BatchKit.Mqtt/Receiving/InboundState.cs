using BatchKit.Transports;

namespace BatchKit.Mqtt.Receiving;

/// <summary>What a receiver keeps from connection to connection.</summary>
internal sealed class InboundState(ReceiverLog log)
{
    public Quarantine Quarantine { get; } = new(log);

    /// <summary>The messages of QoS 2 that were delivered in the connection's session.</summary>
    public DeliveredMessages Delivered { get; private set; } = new();

    /// <summary>A connection begins. Without the earlier session its packet ids mean other messages. A delivery of the connection before may still be under way, and records in the set of its own session.</summary>
    public void Connect(bool isSessionPresent)
    {
        if (!isSessionPresent)
            Delivered = new DeliveredMessages();
    }
}

/// <summary>The packet ids of the messages of QoS 2 that were delivered and that the broker may still send again (MQTT 5, section 4.3.3). Thread-safe.</summary>
internal sealed class DeliveredMessages
{
    // Guards the field below it: one task delivers while another reads.
    private readonly Lock _lock = new();
    private readonly HashSet<ushort> _packetIds = [];

    public bool Contains(ushort packetId)
    {
        lock (_lock)
            return _packetIds.Contains(packetId);
    }

    public void Add(IEnumerable<ushort> packetIds)
    {
        lock (_lock)
            _packetIds.UnionWith(packetIds);
    }

    /// <summary>The broker will not send the message again; its packet id may mean another one from now on.</summary>
    public void Release(ushort packetId)
    {
        lock (_lock)
            _packetIds.Remove(packetId);
    }
}
