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

    // The messages of QoS 2 among them, which a resent copy must not repeat once they are delivered.
    private readonly HashSet<ushort> _exactlyOnce = [];
    private byte[] _acknowledgements = new byte[64 * AcknowledgementPacket.Bytes];
    private int _acknowledgementBytes;

    public bool IsEmpty => arrivals.IsEmpty && _acknowledgementBytes == 0;

    /// <summary>The memory of all messages, about.</summary>
    public long Bytes { get; private set; }

    /// <exception cref="MqttProtocolException">The packet breaks the protocol, for the first time.</exception>
    public void Add(PacketHeader header, ReadOnlySpan<byte> body, MqttVersion version)
    {
        var isTaken = state.Quarantine.TryRead(header, body, version, out var publish);
        if (publish.QualityOfService == MqttQualityOfService.ExactlyOnce)
            isTaken = isTaken && !state.IsDelivered(publish.PacketId) && _exactlyOnce.Add(publish.PacketId);
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
        state.Release(packetId);
        Acknowledge(PacketType.Pubcomp, packetId);
    }

    public async ValueTask DeliverAsync(BatchReceiver receiver, PacketOutput output, CancellationToken abandon)
    {
        try
        {
            await arrivals.DeliverAsync(receiver, abandon).ConfigureAwait(false);
            state.Deliver(_exactlyOnce);
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
