using BatchKit.Transports;

namespace BatchKit.Mqtt.Receiving;

/// <summary>What a receiver keeps from connection to connection. Thread-safe, except for <see cref="Quarantine"/>.</summary>
internal sealed class InboundState(ReceiverLog log)
{
    // Guards the field below it: one task delivers while another reads.
    private readonly Lock _lock = new();
    private readonly HashSet<ushort> _delivered = [];

    public Quarantine Quarantine { get; } = new(log);

    /// <summary>True when a message of QoS 2 was delivered and the broker may still send it again (MQTT 5, section 4.3.3).</summary>
    public bool IsDelivered(ushort packetId)
    {
        lock (_lock)
            return _delivered.Contains(packetId);
    }

    /// <summary>Records the messages of QoS 2 that were delivered.</summary>
    public void Deliver(HashSet<ushort> packetIds)
    {
        if (packetIds.Count == 0)
            return;
        lock (_lock)
            _delivered.UnionWith(packetIds);
    }

    /// <summary>The broker will not send the message again; its packet id may mean another one from now on.</summary>
    public void Release(ushort packetId)
    {
        lock (_lock)
            _delivered.Remove(packetId);
    }

    /// <summary>A connection begins. Without the earlier session its packet ids mean other messages.</summary>
    public void Connect(bool isSessionPresent)
    {
        if (isSessionPresent)
            return;
        lock (_lock)
            _delivered.Clear();
    }
}
