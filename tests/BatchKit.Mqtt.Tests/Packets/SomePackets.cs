using BatchKit.Mqtt.Tests.Packets.Plain;
using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Mqtt.Tests.Packets;

/// <summary>Generators of the packets that a broker sends.</summary>
internal static class SomePackets
{
    private static readonly Gen<int> Failures = Gen.Choose(0x80, 0xA2);

    private static readonly Gen<int> PacketIds = Gen.OneOf(Gen.Elements(1, 255, 256, ushort.MaxValue), Gen.Choose(1, ushort.MaxValue));

    public static Gen<PlainPacket> From(MqttVersion version) =>
        version == MqttVersion.V5
            ? Gen.Frequency((2, Connack(version)), (5, Publish(version)), (2, Puback(version)), (2, Suback(version)), (1, Disconnect))
            : Gen.Frequency((1, Connack(version)), (4, Publish(version)), (1, Puback(version)), (1, Suback(version)));

    private static Gen<PlainPacket> Disconnect { get; } =
        from code in Gen.OneOf(Gen.Constant(0), Failures)
        from properties in PropertiesOf("DISCONNECT")
        select new PlainPacket { Type = 14, Codes = [code], Properties = properties };

    private static Gen<PlainPacket> Connack(MqttVersion version) =>
        from code in version == MqttVersion.V5 ? Gen.OneOf(Gen.Constant(0), Failures) : Gen.Elements(PlainDecoder.ReturnCodes)
        from isSessionPresent in SomeMessages.Booleans
        from properties in PropertiesOf("CONNACK")
        select new PlainPacket { Type = 2, Codes = [code == 0 && isSessionPresent ? 1 : 0, code], Properties = version == MqttVersion.V5 ? properties : [] };

    private static Gen<PlainPacket> Publish(MqttVersion version) =>
        from topic in SomeTexts.Received
        from flags in Gen.Elements(0b0000, 0b0001, 0b0010, 0b0011, 0b0100, 0b0101, 0b1010, 0b1011, 0b1100, 0b1101)
        from packetId in PacketIds
        from properties in PropertiesOf("PUBLISH")
        from payload in SomeMessages.Bytes
        let isAlias = version == MqttVersion.V5 && properties.Any(static property => property.Id == 0x23)
        let name = topic.Replace("+", "", StringComparison.Ordinal).Replace("#", "", StringComparison.Ordinal)
        select new PlainPacket
        {
            Type = 3,
            Flags = flags,
            Topic = name.Length == 0 && !isAlias ? "t" : name,
            PacketId = (flags & 6) == 0 ? 0 : packetId,
            Properties = version == MqttVersion.V5 ? properties : [],
            Payload = payload,
        };

    private static Gen<PlainPacket> Puback(MqttVersion version) =>
        from packetId in PacketIds
        from code in Gen.OneOf(Gen.Elements(0x00, 0x10), Failures)
        from properties in PropertiesOf("PUBACK")
        select new PlainPacket { Type = 4, PacketId = packetId, Codes = [version == MqttVersion.V5 ? code : 0], Properties = version == MqttVersion.V5 ? properties : [] };

    private static Gen<PlainPacket> Suback(MqttVersion version) =>
        from packetId in PacketIds
        from codes in Gen.OneOf(Gen.Elements(0x00, 0x01, 0x02), version == MqttVersion.V5 ? Failures : Gen.Constant(0x80)).NonEmptyListOf()
        from properties in PropertiesOf("SUBACK")
        select new PlainPacket { Type = 9, PacketId = packetId, Codes = [.. codes], Properties = version == MqttVersion.V5 ? properties : [] };

    /// <summary>Some of the properties that a packet may have, in any order, user properties more than once.</summary>
    private static Gen<PlainProperty[]> PropertiesOf(string packet)
    {
        var single = PlainProperties.Table.Where(entry => entry.Key != PlainProperties.UserProperty && entry.Value.Packets.Split(' ').Contains(packet))
            .Select(static entry => Property(entry.Key, entry.Value.Kind)).ToArray();
        return
            from all in Gen.CollectToArray(single)
            from isThere in SomeMessages.Booleans.ArrayOf(single.Length)
            from userProperties in Property(PlainProperties.UserProperty, PlainKind.Pair).ArrayOf()
            from hasAny in Gen.Frequency((1, Gen.Constant(false)), (3, Gen.Constant(true)))
            from ordered in Gen.Shuffle(hasAny ? [.. all.Where((_, index) => isThere[index]), .. userProperties] : Array.Empty<PlainProperty>())
            select ordered;
    }

    private static Gen<PlainProperty> Property(int id, PlainKind kind) => kind switch
    {
        PlainKind.Byte => Gen.Choose(0, 1).Select(value => PlainProperty.Of(id, value)),
        PlainKind.TwoBytes => Gen.Choose(1, ushort.MaxValue).Select(value => PlainProperty.Of(id, value)),
        PlainKind.FourBytes => Gen.Choose(1, int.MaxValue).Select(value => PlainProperty.Of(id, value * 2L)),
        PlainKind.VariableBytes => Gen.Elements(1, 127, 128, 16_383, 16_384, 268_435_455).Select(value => PlainProperty.Of(id, value)),
        PlainKind.Text => SomeTexts.Received.Select(value => new PlainProperty(id, value)),
        PlainKind.Binary => SomeMessages.Bytes.Select(value => PlainProperty.Of(id, value)),
        _ => from name in SomeTexts.Received from value in SomeTexts.Received select PlainProperty.Pair(name, value),
    };
}
