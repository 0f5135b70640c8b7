using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Tests.Packets.Plain;
using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Mqtt.Tests.Packets;

public sealed class PublishWritingTests
{
    private const byte Untouched = 0xA5;

    private static readonly Config FiveHundred = Config.QuickThrowOnFailure.WithMaxTest(500).WithEndSize(20);

    private static readonly Gen<(MqttMessage Message, ushort PacketId, bool IsDuplicate, ushort Alias, bool IsTopicKnown)> Publishes =
        from message in SomeMessages.Any
        from packetId in Gen.Choose(1, ushort.MaxValue)
        from isDuplicate in SomeMessages.Booleans
        from alias in Gen.OneOf(Gen.Constant(0), Gen.Choose(1, ushort.MaxValue))
        from isTopicKnown in SomeMessages.Booleans
        select (message, (ushort)packetId, isDuplicate, (ushort)alias, alias > 0 && isTopicKnown);

    [Fact]
    public void Whatever_is_written_for_MQTT_5_is_what_the_specification_reads() => Check.One(FiveHundred, Prop.ForAll(Publishes.ToArbitrary(), static publish =>
    {
        var (message, packetId, isDuplicate, alias, isTopicKnown) = publish;
        var expected = Expected(message, packetId, isDuplicate) with
        {
            Topic = isTopicKnown ? "" : message.Topic,
            Properties = [.. alias == 0 ? [] : new[] { PlainProperty.Of(0x23, alias) }, .. SomeMessages.Properties(message)],
        };

        var packet = Write(message, MqttVersion.V5, packetId, isDuplicate, alias, isTopicKnown);

        Assert.Equal(expected.Show(), PlainDecoder.Decode(packet, MqttVersion.V5, isFromBroker: false)?.Show());
        Assert.Equal(SourceReader.Told(expected).Show(), SourceReader.Read(packet, MqttVersion.V5).Show());
        Assert.Null(PublishPacket.FindFault(SomeMessages.Fields(message), MqttVersion.V5));
    }));

    [Fact]
    public void Whatever_is_written_for_3_1_1_has_topic_payload_and_flags_only() => Check.One(FiveHundred, Prop.ForAll(Publishes.ToArbitrary(), static publish =>
    {
        var (message, packetId, isDuplicate, _, _) = publish;
        var expected = Expected(message, packetId, isDuplicate);

        var packet = Write(message, MqttVersion.V311, packetId, isDuplicate, alias: 0, isTopicKnown: false);

        Assert.Equal(expected.Show(), PlainDecoder.Decode(packet, MqttVersion.V311, isFromBroker: false)?.Show());
        Assert.Equal(expected.Show(), SourceReader.Read(packet, MqttVersion.V311).Show());
    }));

    [Fact]
    public void Fields_that_no_packet_can_hold_are_measured_all_the_same()
    {
        var text = new string('x', ushort.MaxValue);
        var pairs = Enumerable.Repeat(new KeyValuePair<string, string>(text, text), 20_000).ToArray();

        var bytes = PublishPacket.Measure(new PublishFields { Topic = "t", UserProperties = pairs }, MqttVersion.V5);

        Assert.Equal(1 + 4 + 3 + 4 + (20_000L * (5 + (2 * ushort.MaxValue))), bytes);
    }

    // Not inline data: attributes are stored as UTF-8, which has no half pairs.
    [Fact]
    public void A_text_without_UTF_8_is_never_written_as_another_text() => Assert.All(["\uD800", "a\uDC00", "\uDC00\uD800"], static text =>
    {
        Assert.All(WithText(text), static message =>
        {
            var target = new byte[200];

            Assert.Contains("surrogate", PublishPacket.FindFault(SomeMessages.Fields(message), MqttVersion.V5), StringComparison.Ordinal);
            Assert.ThrowsAny<ArgumentException>(() => PublishPacket.Measure(SomeMessages.Fields(message), MqttVersion.V5));
            Assert.ThrowsAny<ArgumentException>(() => PublishPacket.Write(target, SomeMessages.Fields(message), MqttVersion.V5, packetId: 1, isDuplicate: false));
            Assert.Null(PublishPacket.FindFault(SomeMessages.Fields(message), MqttVersion.V311));
        });
        Assert.ThrowsAny<ArgumentException>(() => PublishPacket.Measure(new PublishFields { Topic = text }, MqttVersion.V311));
        Assert.ThrowsAny<ArgumentException>(() => PublishPacket.Write(new byte[200], new PublishFields { Topic = text }, MqttVersion.V311, packetId: 0, isDuplicate: false));
    });

    [Theory]
    [InlineData("a\0", "control character")]
    [InlineData("a\n", "control character")]
    [InlineData("\u009F", "control character")]
    [InlineData("\uFFFE", "no character")]
    [InlineData("\uFDD0", "no character")]
    [InlineData("\U0001FFFF", "no character")]
    public void A_text_for_which_a_broker_may_close_the_connection_is_found(string text, string fault) => Assert.All(WithText(text), message =>
        Assert.Contains(fault, PublishPacket.FindFault(SomeMessages.Fields(message), MqttVersion.V5), StringComparison.Ordinal));

    [Fact]
    public void Texts_and_data_of_more_than_65_535_bytes_are_found() => Assert.All(
        [.. WithText(new string('é', 32_768)), new MqttMessage("t", default) { CorrelationData = new byte[65_536] }],
        static message => Assert.Contains("65535", PublishPacket.FindFault(SomeMessages.Fields(message), MqttVersion.V5), StringComparison.Ordinal));

    [Fact]
    public void A_user_property_without_a_name_or_value_is_found() => Assert.All([default, new KeyValuePair<string, string>("n", null!), new KeyValuePair<string, string>(null!, "v")],
        static pair => Assert.Contains("missing", PublishPacket.FindFault(new PublishFields { Topic = "t", UserProperties = new[] { pair } }, MqttVersion.V5), StringComparison.Ordinal));

    [Theory]
    [InlineData("")]
    [InlineData("a/+")]
    [InlineData("#")]
    public void A_response_topic_that_nobody_could_answer_to_is_found(string topic) =>
        Assert.Contains("Response topic", PublishPacket.FindFault(new PublishFields { Topic = "t", ResponseTopic = topic }, MqttVersion.V5), StringComparison.Ordinal);

    // What both versions write.
    private static PlainPacket Expected(MqttMessage message, ushort packetId, bool isDuplicate)
    {
        var isAcknowledged = message.QualityOfService == MqttQualityOfService.AtLeastOnce;
        return new PlainPacket
        {
            Type = 3,
            Flags = (message.Retain == true ? 1 : 0) + (isAcknowledged ? 2 : 0) + (isAcknowledged && isDuplicate ? 8 : 0),
            Topic = message.Topic,
            PacketId = isAcknowledged ? packetId : 0,
            Payload = message.Payload.ToArray(),
        };
    }

    private static MqttMessage[] WithText(string text) =>
    [
        new("t", default) { ContentType = text },
        new("t", default) { ResponseTopic = text },
        new("t", default) { UserProperties = new[] { new KeyValuePair<string, string>(text, "v") } },
        new("t", default) { UserProperties = new[] { new KeyValuePair<string, string>("n", text) } },
    ];

    private static byte[] Write(in MqttMessage message, MqttVersion version, ushort packetId, bool isDuplicate, ushort alias, bool isTopicKnown)
    {
        var fields = SomeMessages.Fields(message);
        var bytes = PublishPacket.Measure(fields, version, alias, isTopicKnown);
        var target = new byte[bytes + 10];
        target.AsSpan((int)bytes).Fill(Untouched);

        Assert.Equal(bytes, PublishPacket.Write(target, fields, version, packetId, isDuplicate, alias, isTopicKnown));

        Assert.All(target[(int)bytes..], static value => Assert.Equal(Untouched, value));
        return target[..(int)bytes];
    }
}
