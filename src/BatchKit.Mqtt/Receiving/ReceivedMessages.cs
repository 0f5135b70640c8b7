using BatchKit.Mqtt.Connections;
using BatchKit.Mqtt.Packets;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Receiving;

/// <summary>Messages that are delivered together, and their acknowledgements. Not thread-safe.</summary>
internal sealed class ReceivedMessages(IArrivals arrivals, InboundState state)
{
    // What is kept of a message besides its payload, at the most: objects, and for a user property of 7 bytes in the packet two strings and their place.
    private const int MessageOverheadBytes = 192;
    private const int BytesPerTextByte = 16;

    // Those of the session, so that a delivery that outlives its connection records nothing in the next session.
    private readonly DeliveredMessages _delivered = state.Delivered;

    // The messages of QoS 2 among them and their places, which a resent copy must not repeat once they are delivered.
    private readonly Dictionary<ushort, int> _exactlyOnce = [];
    private byte[] _acknowledgements = new byte[64 * AcknowledgementPacket.Bytes];
    private int _acknowledgementBytes;

    public bool IsEmpty => arrivals.Count == 0 && _acknowledgementBytes == 0;

    /// <summary>The memory of all messages, about.</summary>
    public long Bytes { get; private set; }

    /// <exception cref="MqttProtocolException">The packet breaks the protocol, for the first time.</exception>
    public void Add(PacketHeader header, ReadOnlySpan<byte> body, MqttVersion version)
    {
        var isTaken = state.Quarantine.TryRead(header, body, version, out var publish);
        if (publish.QualityOfService == MqttQualityOfService.ExactlyOnce)
            isTaken = isTaken && !_delivered.Contains(publish.PacketId) && _exactlyOnce.TryAdd(publish.PacketId, arrivals.Count);
        if (isTaken)
        {
            arrivals.Add(publish);
            Bytes += publish.Payload.Length + MessageOverheadBytes + ((long)BytesPerTextByte * (body.Length - publish.Payload.Length));
        }

        if (publish.PacketId != 0)
            Acknowledge(publish.QualityOfService == MqttQualityOfService.ExactlyOnce ? PacketType.Pubrec : PacketType.Puback, publish.PacketId);
    }

    /// <summary>The broker has forgotten a message of QoS 2 (PUBREL, MQTT 5, section 3.6).</summary>
    /// <exception cref="MqttProtocolException">The packet is malformed.</exception>
    public void Release(ReadOnlySpan<byte> body)
    {
        var packetId = new PacketReader(body).ReadPacketId();
        _delivered.Release(packetId);
        Acknowledge(PacketType.Pubcomp, packetId);
    }

    public async ValueTask DeliverAsync(BatchReceiver receiver, PacketOutput output, CancellationToken abandon)
    {
        try
        {
            if (_exactlyOnce.Count > 0)
                RemoveDelivered();
            await arrivals.DeliverAsync(receiver, abandon).ConfigureAwait(false);
            if (_exactlyOnce.Count > 0)
                _delivered.Add(_exactlyOnce.Keys);
            output.Append(_acknowledgements.AsSpan(0, _acknowledgementBytes));
            output.Flush();
        }
        catch (OperationCanceledException) when (abandon.IsCancellationRequested)
        {
            // The messages are not acknowledged, so the broker keeps them for the next receiver.
        }
        finally
        {
            Forget();
        }
    }

    public void Clear()
    {
        arrivals.Clear();
        Forget();
    }

    // A delivery of the connection before, which was under way when the broker sent them again, may have ended since.
    private void RemoveDelivered()
    {
        foreach (var (_, place) in _exactlyOnce.Where(message => _delivered.Contains(message.Key)).OrderByDescending(static message => message.Value))
            arrivals.RemoveAt(place);
    }

    private void Acknowledge(PacketType type, ushort packetId)
    {
        if (_acknowledgementBytes == _acknowledgements.Length)
            Array.Resize(ref _acknowledgements, 2 * _acknowledgements.Length);
        AcknowledgementPacket.Write(_acknowledgements.AsSpan(_acknowledgementBytes), type, packetId);
        _acknowledgementBytes += AcknowledgementPacket.Bytes;
    }

    private void Forget()
    {
        _exactlyOnce.Clear();
        (_acknowledgementBytes, Bytes) = (0, 0);
    }
}
