using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Tests.Packets.Plain;
using Microsoft.Extensions.Options;

namespace BatchKit.Mqtt.Tests.Packets;

/// <summary>One byte below, at and above each limit of the protocol.</summary>
public sealed class PacketLimitTests
{
    private const int MaxTextBytes = 65_535;

    public static TheoryData<string, Func<int, MqttMessage>> Texts => new()
    {
        { "content type", length => new("t", default) { ContentType = new string('x', length) } },
        { "esponse topic", length => new("t", default) { ResponseTopic = new string('x', length) } },
        { "correlation data", length => new("t", default) { CorrelationData = new byte[length] } },
        { "user property's name", length => new("t", default) { UserProperties = new[] { KeyValuePair.Create(new string('x', length), "v") } } },
        { "value of the user property", length => new("t", default) { UserProperties = new[] { KeyValuePair.Create("n", new string('x', length)) } } },
    };

    public static TheoryData<string, Action<MqttOptions, string>> Settings => new()
    {
        { nameof(MqttOptions.UserName), (options, text) => options.UserName = text },
        { nameof(MqttOptions.Password), (options, text) => (options.UserName, options.Password) = ("user", text) },
        { nameof(MqttOptions.TopicRules), (options, text) => options.TopicRules = [new MqttTopicRule { Filter = text }] },
        { nameof(MqttOptions.Subscriptions), (options, text) => options.Subscriptions = [new MqttSubscription { Filter = text }] },
        { nameof(MqttOptions.Will), (options, text) => options.Will = new MqttWill(new MqttMessage(text, default)) },
    };

    [Theory]
    [MemberData(nameof(Texts))]
    public void Each_text_of_a_message_has_up_to_65_535_bytes(string part, Func<int, MqttMessage> message)
    {
        foreach (var length in (int[])[MaxTextBytes - 1, MaxTextBytes])
        {
            Assert.Null(PublishPacket.FindFault(SomeMessages.Fields(message(length)), MqttVersion.V5));
            var packet = Write(message(length), MqttVersion.V5);
            Assert.NotNull(PlainDecoder.Decode(packet, MqttVersion.V5, isFromBroker: false));
        }

        var fault = PublishPacket.FindFault(SomeMessages.Fields(message(MaxTextBytes + 1)), MqttVersion.V5);
        Assert.Contains(part, fault, StringComparison.Ordinal);
        Assert.Contains("65535", fault, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("x", MaxTextBytes - 1, true)]
    [InlineData("x", MaxTextBytes, true)]
    [InlineData("x", MaxTextBytes + 1, false)]
    [InlineData("é", MaxTextBytes / 2, true)]
    [InlineData("é", (MaxTextBytes / 2) + 1, false)]
    [InlineData("€", MaxTextBytes / 3, true)]
    [InlineData("€", (MaxTextBytes / 3) + 1, false)]
    public void A_topic_has_up_to_65_535_bytes_in_UTF_8(string character, int count, bool isAccepted)
    {
        var topic = string.Concat(Enumerable.Repeat(character, count));

        var fault = MqttTopics.FindFaultInName(topic, allowSystemTopics: false);

        Assert.Equal(isAccepted, fault is null);
        Assert.Equal(isAccepted, fault?.Contains("65535", StringComparison.Ordinal) != true);
        Assert.Equal(isAccepted, MqttTopics.FindFaultInFilter(topic) is null);
    }

    [Theory]
    [InlineData(MqttVersion.V311, 128, 2)]
    [InlineData(MqttVersion.V311, 16_384, 3)]
    [InlineData(MqttVersion.V311, 2_097_152, 4)]
    [InlineData(MqttVersion.V5, 128, 2)]
    [InlineData(MqttVersion.V5, 16_384, 3)]
    [InlineData(MqttVersion.V5, 2_097_152, 4)]
    public void A_body_whose_length_takes_another_byte_is_written_and_read_whole(MqttVersion version, int bodyBytes, int lengthBytes)
    {
        foreach (var body in (int[])[bodyBytes - 2, bodyBytes - 1, bodyBytes, bodyBytes + 1])
        {
            var payload = new byte[body - (version == MqttVersion.V5 ? 4 : 3)];

            var packet = Write(new MqttMessage("t", payload), version);

            Assert.True(PacketHeader.TryRead(packet, int.MaxValue, out var header, out var headerBytes));
            Assert.Equal((body, body < bodyBytes ? lengthBytes : 1 + lengthBytes, packet.Length), (header.BodyBytes, headerBytes, headerBytes + body));
            Assert.Equal(payload.Length, PlainDecoder.Decode(packet, version, isFromBroker: false)?.Payload.Length);
        }
    }

    [Theory]
    [InlineData(-1, true)]
    [InlineData(0, true)]
    [InlineData(1, true)]
    [InlineData(2, false)]
    public void A_packet_that_arrives_has_up_to_MaxPacketBytes_and_the_byte_that_Mosquitto_does_not_count(int above, bool isAccepted)
    {
        var packet = Write(new MqttMessage("t", new byte[2000 - 6 + above]), MqttVersion.V311);
        Assert.Equal(2000 + above, packet.Length);

        var exception = Record.Exception(() => PacketHeader.TryRead(packet, maxPacketBytes: 2000, out _, out _));

        Assert.Equal(isAccepted ? null : MqttReasonCode.PacketTooLarge, (exception as MqttProtocolException)?.ReasonCode);
        Assert.Equal(isAccepted ? null : "A packet has 2002 bytes, more than MqttOptions.MaxPacketBytes (2000).", exception?.Message);
    }

    [Fact]
    public void The_largest_length_is_that_of_four_bytes()
    {
        var target = new byte[4];

        Assert.Equal(4, VariableByteInteger.Write(target, VariableByteInteger.MaxValue));
        Assert.True(VariableByteInteger.TryRead(target, out var value, out var bytes));
        Assert.Equal((VariableByteInteger.MaxValue, 4), (value, bytes));
        Assert.Throws<ArgumentOutOfRangeException>(() => VariableByteInteger.Write(target, VariableByteInteger.MaxValue + 1));
        Assert.Throws<MqttProtocolException>(() => VariableByteInteger.TryRead([0xFF, 0xFF, 0xFF, 0x80, 0x01], out _, out _));
    }

    [Theory]
    [MemberData(nameof(Settings))]
    public async Task A_text_that_CONNECT_or_SUBSCRIBE_carries_has_up_to_65_535_bytes_and_a_longer_one_stops_the_start(string setting, Action<MqttOptions, string> set)
    {
        foreach (var length in (int[])[MaxTextBytes - 1, MaxTextBytes])
            await new MqttTransport(Options(length)).DisposeAsync();

        var failure = Assert.Throws<OptionsValidationException>(() => new MqttTransport(Options(MaxTextBytes + 1)));

        Assert.Contains($"MqttOptions.{setting}", failure.Message, StringComparison.Ordinal);
        Assert.Contains("65535", failure.Message, StringComparison.Ordinal);
        Assert.True(failure.Message.Length < 1000, "The error repeats the text.");

        MqttOptions Options(int length)
        {
            var options = new MqttOptions();
            set(options, new string('x', length));
            return options;
        }
    }

    private static byte[] Write(in MqttMessage message, MqttVersion version)
    {
        var fields = SomeMessages.Fields(message);
        var packet = new byte[PublishPacket.Measure(fields, version)];
        Assert.Equal(packet.Length, PublishPacket.Write(packet, fields, version, packetId: 1, isDuplicate: false));
        return packet;
    }
}
