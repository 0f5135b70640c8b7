using System.Text;
using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Tests.Packets.Plain;

namespace BatchKit.Mqtt.Tests.Packets;

/// <summary>The package's readers, and what they give in the tests' own words.</summary>
internal static class SourceReader
{
    // PUBLISH: what a receiver is not told of. CONNACK: what a broker may say of things that we never use.
    private static readonly int[] Untold = [0x01, 0x02, 0x0B, 0x11, 0x15, 0x16, 0x1A, 0x1C, 0x29];

    private static readonly (int Id, string Value)[] Assumed = [(0x21, "65535"), (0x22, "0"), (0x25, "1"), (0x27, "4294967295"), (0x28, "1"), (0x2A, "1"), (0x03, ""), (0x08, ""), (0x09, "")];

    /// <summary>Reads and forgets; for measuring what reading takes.</summary>
    /// <returns>Null when there is no whole packet.</returns>
    /// <exception cref="MqttProtocolException">It was refused.</exception>
    public static PacketType? Touch(ReadOnlySpan<byte> packet, MqttVersion version)
    {
        if (!PacketHeader.TryRead(packet, int.MaxValue, out var header, out var headerBytes) || header.BodyBytes != packet.Length - headerBytes)
            return null;
        Touch(header, packet[headerBytes..], version);
        return header.Type;
    }

    public static void Touch(PacketHeader header, ReadOnlySpan<byte> body, MqttVersion version)
    {
        switch (header.Type)
        {
            case PacketType.Connack:
                ConnackPacket.Read(body, version);
                break;
            case PacketType.Publish:
                // What a receiver skips is read before it is known to be good.
                Assert.True(DamagedPublish.Read(header, body).Topic.Length <= body.Length);
                UserProperties.Read(PublishPacket.Read(header, body, version).Properties);
                break;
            case PacketType.Puback:
                PubackPacket.Read(body, version, out _, out _);
                break;
            case PacketType.Suback:
                SubackPacket.Read(body, version);
                break;
            case PacketType.Disconnect:
                DisconnectPacket.Read(body, version, out _, out _);
                break;
            default:
                break;
        }
    }

    /// <summary>Reads a whole packet.</summary>
    /// <exception cref="MqttProtocolException">It was refused.</exception>
    public static PlainPacket Read(ReadOnlySpan<byte> packet, MqttVersion version)
    {
        Assert.True(PacketHeader.TryRead(packet, packet.Length, out var header, out var headerBytes));
        Assert.Equal(packet.Length - headerBytes, header.BodyBytes);
        var body = packet[headerBytes..];
        var plain = new PlainPacket { Type = (int)header.Type, Flags = header.Flags };
        switch (header.Type)
        {
            case PacketType.Connack:
                return Connack(ConnackPacket.Read(body, version), plain);
            case PacketType.Publish:
                return Publish(PublishPacket.Read(header, body, version), plain);
            case PacketType.Puback:
                var packetId = PubackPacket.Read(body, version, out var code, out var reason);
                return plain with { PacketId = packetId, Codes = [(int)code], Properties = Reason(reason) };
            case PacketType.Suback:
                var suback = SubackPacket.Read(body, version);
                return plain with { PacketId = suback.PacketId, Codes = [.. suback.ReasonCodes.Select(static code => (int)code)], Properties = Reason(suback.Reason) };
            case PacketType.Disconnect:
                return plain with { Codes = [(int)DisconnectPacket.Read(body, version, out var why, out _)], Properties = Reason(why) };
            default:
                return plain;
        }
    }

    /// <summary>A packet without what the package's readers don't tell: properties that nobody needs, those that say what is assumed without them, and empty ones of a message.</summary>
    public static PlainPacket Told(PlainPacket packet) => packet with
    {
        Properties = [.. packet.Properties.Where(property =>
            !Untold.Contains(property.Id) && !Assumed.Contains((property.Id, property.Value)) && (property.Id != PlainProperties.UserProperty || packet.Type == 3))],
    };

    private static PlainProperty[] Reason(string? reason) => reason is null ? [] : [new PlainProperty(0x1F, reason)];

    private static PlainPacket Publish(ReceivedPublish publish, PlainPacket plain)
    {
        var userProperties = UserProperties.Read(publish.Properties);
        Assert.Equal(publish.HasUserProperties, userProperties.Length > 0);
        Assert.Equal((publish.Retain ? 1 : 0) + ((int)publish.QualityOfService * 2) + (publish.IsDuplicate ? 8 : 0), plain.Flags);
        return Told(plain with
        {
            Topic = Encoding.UTF8.GetString(publish.Topic),
            PacketId = publish.PacketId,
            Payload = publish.Payload.ToArray(),
            Properties =
            [
                .. publish.TopicAlias == 0 ? [] : new[] { PlainProperty.Of(0x23, publish.TopicAlias) },
                new PlainProperty(0x03, Encoding.UTF8.GetString(publish.ContentType)),
                new PlainProperty(0x08, Encoding.UTF8.GetString(publish.ResponseTopic)),
                PlainProperty.Of(0x09, publish.CorrelationData),
                .. userProperties.Select(static pair => PlainProperty.Pair(pair.Key, pair.Value)),
            ],
        });
    }

    private static PlainPacket Connack(ConnackPacket connack, PlainPacket plain) => Told(plain with
    {
        Codes = [connack.IsSessionPresent ? 1 : 0, (int)connack.ReasonCode],
        Properties =
        [
            .. connack.AssignedClientId is { } clientId ? new[] { new PlainProperty(0x12, clientId) } : [],
            .. connack.ServerKeepAlive is { } keepAlive ? new[] { PlainProperty.Of(0x13, keepAlive) } : [],
            .. Reason(connack.Reason),
            PlainProperty.Of(0x21, connack.ReceiveMaximum),
            PlainProperty.Of(0x22, connack.TopicAliasMaximum),
            .. connack.MaximumQualityOfService == MqttQualityOfService.ExactlyOnce ? [] : new[] { PlainProperty.Of(0x24, (int)connack.MaximumQualityOfService) },
            PlainProperty.Of(0x25, connack.IsRetainAvailable ? 1 : 0),
            PlainProperty.Of(0x27, connack.MaxPacketBytes),
            PlainProperty.Of(0x28, connack.IsWildcardSubscriptionAvailable ? 1 : 0),
            PlainProperty.Of(0x2A, connack.IsSharedSubscriptionAvailable ? 1 : 0),
        ],
    });
}
