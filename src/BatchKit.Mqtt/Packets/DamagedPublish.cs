using System.Buffers.Binary;

namespace BatchKit.Mqtt.Packets;

/// <summary>Reads what there is of a PUBLISH that breaks the protocol, so that it can be named and acknowledged.</summary>
internal static class DamagedPublish
{
    /// <summary>The topic's bytes, which may be no valid text, the QoS and the packet id; a packet id of 0 when there is none to acknowledge.</summary>
    public static ReceivedPublish Read(PacketHeader header, ReadOnlySpan<byte> body)
    {
        var publish = default(ReceivedPublish);
        if (!BinaryPrimitives.TryReadUInt16BigEndian(body, out var topicBytes) || body.Length < sizeof(ushort) + topicBytes)
            return publish;
        publish.Topic = body.Slice(sizeof(ushort), topicBytes);
        var qualityOfService = (MqttQualityOfService)((header.Flags & PublishFlags.QualityOfServiceMask) >> PublishFlags.QualityOfServiceShift);
        // QoS 3 has no acknowledgement.
        if (qualityOfService is not (MqttQualityOfService.AtLeastOnce or MqttQualityOfService.ExactlyOnce)
            || !BinaryPrimitives.TryReadUInt16BigEndian(body[(sizeof(ushort) + topicBytes)..], out var packetId) || packetId == 0)
        {
            return publish;
        }

        (publish.QualityOfService, publish.PacketId) = (qualityOfService, packetId);
        return publish;
    }
}
