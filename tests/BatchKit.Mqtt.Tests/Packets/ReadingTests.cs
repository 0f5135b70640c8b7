using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Tests.Packets.Plain;
using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Mqtt.Tests.Packets;

public sealed class ReadingTests
{
    private static readonly Config OneThousand = Config.QuickThrowOnFailure.WithMaxTest(1000).WithEndSize(20);

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public void What_a_broker_writes_by_the_specification_is_read(MqttVersion version) => Check.One(OneThousand, Prop.ForAll(SomePackets.From(version).ToArbitrary(), packet =>
    {
        var bytes = PlainEncoder.Encode(packet, version);

        Assert.Equal(packet.Show(), PlainDecoder.Decode(bytes, version, isFromBroker: true)?.Show());
        Assert.Equal(SourceReader.Told(packet).Show(), SourceReader.Read(bytes, version).Show());
    }));

    [Fact]
    public void A_header_is_read_as_soon_as_it_is_there() => Check.One(OneThousand, Prop.ForAll(SomePackets.From(MqttVersion.V5).ToArbitrary(), static packet =>
    {
        var bytes = PlainEncoder.Encode(packet, MqttVersion.V5);
        Assert.True(PacketHeader.TryRead(bytes, bytes.Length, out var header, out var headerBytes));

        for (var length = 0; length < headerBytes; length++)
            Assert.False(PacketHeader.TryRead(bytes.AsSpan(0, length), bytes.Length, out _, out _));
        Assert.True(PacketHeader.TryRead(bytes.AsSpan(0, headerBytes), bytes.Length, out var early, out _));
        Assert.Equal(header, early);
        var tooLarge = Assert.Throws<MqttProtocolException>(() => PacketHeader.TryRead(bytes.AsSpan(0, headerBytes), bytes.Length - 2, out _, out _));
        Assert.Equal(MqttReasonCode.PacketTooLarge, tooLarge.ReasonCode);
    }));

    [Fact]
    public void A_broker_that_names_no_limits_has_those_of_the_specification()
    {
        var connack = ConnackPacket.Read([0, 0, 0], MqttVersion.V5);

        Assert.Equal(new ConnackPacket(), connack);
        Assert.Equal(new ConnackPacket(), ConnackPacket.Read([0, 0], MqttVersion.V311));
        Assert.Equal((65_535, uint.MaxValue, 0, null), (connack.ReceiveMaximum, connack.MaxPacketBytes, connack.TopicAliasMaximum, connack.ServerKeepAlive));
    }

    [Fact]
    public void A_broker_that_only_speaks_3_1_1_is_understood_when_it_says_so() =>
        Assert.Equal(MqttReasonCode.UnsupportedProtocolVersion, ConnackPacket.Read([0, 1], MqttVersion.V5).ReasonCode);

    [Fact]
    public void What_a_publisher_got_wrong_and_its_broker_passed_on_does_not_end_the_connection()
    {
        byte[] packet = PlainEncoder.Packet(3, 0, [0, 1, (byte)'t', 8, 0x01, 0x02, 0x08, 0x00, 0x03, (byte)'a', (byte)'/', (byte)'+']);

        Assert.Equal("a/+", SourceReader.Read(packet, MqttVersion.V5).Properties.Single().Value);
    }
}
