using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Tests.Packets.Plain;

namespace BatchKit.Mqtt.Tests.Packets;

/// <summary>What the protocol forbids, packet by packet, each with the reason code that the connection is closed with.</summary>
public sealed class StrictReadingTests
{
    [Theory]
    [InlineData("type 0", "00 00")]
    [InlineData("flags of a CONNACK", "21 03 00 00 00")]
    [InlineData("flags of a PUBACK", "42 02 00 01")]
    [InlineData("flags of a SUBACK", "92 04 00 01 00 00")]
    [InlineData("flags of a PINGRESP", "D1 00")]
    [InlineData("flags of a DISCONNECT", "E8 00")]
    [InlineData("a PINGRESP with a body", "D0 01 00")]
    [InlineData("a length of five bytes", "30 80 80 80 80 01")]
    [InlineData("a length that takes more bytes than it needs", "D0 80 00")]
    [InlineData("a PUBLISH of QoS 3", "36 06 00 01 74 00 01 00")]
    [InlineData("a PUBLISH of QoS 0 sent again", "38 04 00 01 74 00")]
    [InlineData("a PUBLISH without a topic's length", "30 01 00")]
    [InlineData("a PUBLISH with a topic cut short", "30 03 00 02 74")]
    [InlineData("a PUBLISH with a packet id cut short", "32 04 00 01 74 01")]
    [InlineData("a PUBLISH without properties", "30 03 00 01 74")]
    [InlineData("a topic that is not UTF-8", "30 05 00 02 C3 28 00")]
    [InlineData("a topic with a surrogate", "30 06 00 03 ED A0 80 00")]
    [InlineData("a topic with a NUL", "30 05 00 02 74 00 00")]
    [InlineData("a topic that is longer than it needs to be", "30 05 00 02 C0 AF 00")]
    [InlineData("properties longer than the packet", "30 05 00 01 74 02 01")]
    [InlineData("a properties' length that takes more bytes than it needs", "30 05 00 01 74 80 00")]
    [InlineData("a properties' length of five bytes", "30 08 00 01 74 80 80 80 80 01")]
    [InlineData("an unknown property", "30 06 00 01 74 02 04 01")]
    [InlineData("an unknown property above 63", "30 06 00 01 74 02 66 01")]
    [InlineData("a property with an identifier of two bytes", "30 07 00 01 74 03 81 00 01")]
    [InlineData("a property of another packet", "30 07 00 01 74 03 13 00 01")]
    [InlineData("a property cut short", "30 06 00 01 74 02 23 01")]
    [InlineData("a user property without its value", "30 08 00 01 74 04 26 00 01 61")]
    [InlineData("a user property's name with a NUL", "30 0A 00 01 74 06 26 00 01 00 00 00")]
    [InlineData("a CONNACK cut short", "20 01 00")]
    [InlineData("a CONNACK without properties", "20 02 00 00")]
    [InlineData("a CONNACK with an unknown flag", "20 03 02 00 00")]
    [InlineData("a CONNACK with bytes left over", "20 04 00 00 00 00")]
    [InlineData("a PUBACK cut short", "40 01 00")]
    [InlineData("a PUBACK with bytes left over", "40 05 00 01 00 00 00")]
    [InlineData("a SUBACK without codes", "90 03 00 01 00")]
    [InlineData("a DISCONNECT with a session expiry", "E0 07 00 05 11 00 00 00 01")]
    [InlineData("a DISCONNECT with bytes left over", "E0 03 00 00 00")]
    public void What_cannot_be_parsed_is_malformed(string what, string packet) => AssertRefused(MqttReasonCode.MalformedPacket, what, packet, MqttVersion.V5);

    [Theory]
    [InlineData("a PUBLISH of packet id 0", "32 06 00 01 74 00 00 00")]
    [InlineData("a topic with +", "30 05 00 02 74 2B 00")]
    [InlineData("a topic with #", "30 05 00 02 74 23 00")]
    [InlineData("neither topic nor alias", "30 03 00 00 00")]
    [InlineData("a property that is there twice", "30 0A 00 01 74 06 23 00 01 23 00 01")]
    [InlineData("a subscription identifier of 0", "30 06 00 01 74 02 0B 00")]
    [InlineData("a CONNACK with a session that it refuses", "20 03 01 87 00")]
    [InlineData("a CONNACK with an unknown reason code", "20 03 00 01 00")]
    [InlineData("a Receive Maximum of 0", "20 06 00 00 03 21 00 00")]
    [InlineData("a maximum packet size of 0", "20 08 00 00 05 27 00 00 00 00")]
    [InlineData("a maximum QoS of 2", "20 05 00 00 02 24 02")]
    [InlineData("a retain available of 2", "20 05 00 00 02 25 02")]
    [InlineData("a PUBACK of packet id 0", "40 02 00 00")]
    [InlineData("a PUBACK with a code of SUBACK", "40 03 00 01 01")]
    [InlineData("a PUBACK with an unknown code", "40 03 00 01 FF")]
    [InlineData("a SUBACK of packet id 0", "90 04 00 00 00 00")]
    [InlineData("a SUBACK with an unknown code", "90 04 00 01 00 03")]
    [InlineData("a broker's DISCONNECT with the code of a client's", "E0 01 04")]
    public void What_can_be_parsed_and_is_not_allowed_is_a_protocol_error(string what, string packet) => AssertRefused(MqttReasonCode.ProtocolError, what, packet, MqttVersion.V5);

    [Theory]
    [InlineData("an alias of 0", "30 07 00 01 74 03 23 00 00", MqttReasonCode.TopicAliasInvalid)]
    public void What_has_a_code_of_its_own_gets_it(string what, string packet, MqttReasonCode expected) => AssertRefused(expected, what, packet, MqttVersion.V5);

    [Theory]
    [InlineData("an empty topic", "30 02 00 00", MqttReasonCode.ProtocolError)]
    [InlineData("a PUBACK with a reason code", "40 03 00 01 00", MqttReasonCode.MalformedPacket)]
    [InlineData("a CONNACK with properties", "20 03 00 00 00", MqttReasonCode.MalformedPacket)]
    [InlineData("an unknown return code of CONNACK", "20 02 00 06", MqttReasonCode.ProtocolError)]
    [InlineData("a reason code of MQTT 5 in CONNACK", "20 02 00 87", MqttReasonCode.ProtocolError)]
    [InlineData("a reason code of MQTT 5 in SUBACK", "90 03 00 01 87", MqttReasonCode.ProtocolError)]
    [InlineData("a DISCONNECT from the broker", "E0 00", MqttReasonCode.ProtocolError)]
    public void What_3_1_1_does_not_have_is_refused_there(string what, string packet, MqttReasonCode expected) => AssertRefused(expected, what, packet, MqttVersion.V311);

    [Fact]
    public void A_failure_that_is_another_packets_is_still_a_no()
    {
        PubackPacket.Read([0, 1, (byte)MqttReasonCode.QoSNotSupported], MqttVersion.V5, out var reasonCode, out _);

        Assert.Equal(MqttReasonCode.QoSNotSupported, reasonCode);
    }

    private static void AssertRefused(MqttReasonCode expected, string what, string hex, MqttVersion version)
    {
        var packet = Convert.FromHexString(hex.Replace(" ", "", StringComparison.Ordinal));

        var refusal = Record.Exception(() => SourceReader.Touch(packet, version));

        Assert.Equal((what, expected), (what, (refusal as MqttProtocolException)?.ReasonCode));
        Assert.Null(PlainDecoder.Decode(packet, version, isFromBroker: true));
    }
}
