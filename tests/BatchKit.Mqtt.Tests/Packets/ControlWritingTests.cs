using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Tests.Packets.Plain;
using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Mqtt.Tests.Packets;

/// <summary>CONNECT, SUBSCRIBE, PUBACK and DISCONNECT.</summary>
public sealed class ControlWritingTests
{
    private static readonly Config FiveHundred = Config.QuickThrowOnFailure.WithMaxTest(500).WithEndSize(20);

    private static readonly Gen<MqttWill?> Wills = Gen.OneOf(
        Gen.Constant((MqttWill?)null),
        from message in SomeMessages.Any
        from delay in Gen.Choose(0, 100_000)
        select (MqttWill?)new MqttWill(message, TimeSpan.FromSeconds(delay)));

    private static readonly Gen<ConnectFields> Connects =
        from version in Gen.Elements(MqttVersion.V5, MqttVersion.V311)
        from clientId in SomeTexts.Written
        from userName in SomeTexts.Optional(SomeTexts.Written)
        from password in SomeMessages.Bytes
        from cleanStart in SomeMessages.Booleans
        from keepAlive in Gen.Choose(0, ushort.MaxValue)
        from sessionExpiry in Gen.Elements(0u, 1u, 300u, uint.MaxValue)
        from receiveMaximum in Gen.Elements(1, 1000, 65_535)
        from maxPacketBytes in Gen.Elements(1024u, 2 * 1024 * 1024u, uint.MaxValue)
        from topicAliasMaximum in Gen.Elements(0, 1, 65_535)
        from will in Wills
        select new ConnectFields
        {
            Version = version,
            ClientId = clientId,
            Credentials = new MqttCredentials(userName, userName is null && version == MqttVersion.V311 ? default(ReadOnlyMemory<byte>) : password),
            CleanStart = cleanStart,
            KeepAlive = (ushort)keepAlive,
            SessionExpiry = sessionExpiry,
            ReceiveMaximum = (ushort)receiveMaximum,
            MaxPacketBytes = maxPacketBytes,
            TopicAliasMaximum = (ushort)topicAliasMaximum,
            Will = will,
        };

    [Fact]
    public void A_CONNECT_says_what_it_was_given() => Check.One(FiveHundred, Prop.ForAll(Connects.ToArbitrary(), static fields =>
    {
        var packet = ConnectPacket.Write(fields);

        Assert.Equal(Expected(fields).Show(), PlainDecoder.Decode(packet, fields.Version, isFromBroker: false)?.Show());
    }));

    [Fact]
    public void A_CONNECT_that_no_broker_would_take_is_refused()
    {
        var good = Connects.Sample(1, new Rnd(1), 5).Single() with { Version = MqttVersion.V311, ClientId = "c", Credentials = new MqttCredentials(null, default), Will = null };

        Assert.All(
            [
                good with { ClientId = "c\0" },
                good with { ClientId = "c\uD800" },
                good with { ClientId = new string('x', 65_536) },
                good with { Credentials = new MqttCredentials("u\n", default) },
                good with { Credentials = new MqttCredentials("u", new byte[65_536]) },
                good with { Credentials = new MqttCredentials(null, "secret"u8.ToArray()) },
                good with { Will = new MqttWill(new MqttMessage("a/+", default)) },
                good with { Will = new MqttWill(new MqttMessage("", default)) },
                good with { Will = new MqttWill(new MqttMessage("a", new byte[65_536])) },
                good with { Version = MqttVersion.V5, Will = new MqttWill(new MqttMessage("a", default) { ContentType = "\uDC00" }) },
            ],
            static bad => Assert.DoesNotContain("secret", Assert.Throws<MqttProtocolException>(() => ConnectPacket.Write(bad)).Message, StringComparison.Ordinal));
        ConnectPacket.Write(good);
    }

    [Fact]
    public void A_wills_times_are_rounded_up_to_whole_seconds()
    {
        var fields = Connects.Sample(1, new Rnd(1), 5).Single() with
        {
            Version = MqttVersion.V5,
            Will = new MqttWill(new MqttMessage("t", default) { Expiry = TimeSpan.FromMilliseconds(1) }, TimeSpan.FromMilliseconds(1001)),
        };

        var will = PlainDecoder.Decode(ConnectPacket.Write(fields), MqttVersion.V5, isFromBroker: false)?.Connect?.Will;

        Assert.Equal([PlainProperty.Of(0x02, 1), PlainProperty.Of(0x18, 2)], will?.Properties.OrderBy(static property => property.Id));
    }

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public void A_SUBSCRIBE_says_what_it_was_given(MqttVersion version)
    {
        var filters = Enumerable.Range(0, 500).Select(static number => $"räume/{number}/#").ToArray();
        var subscriptions = filters.Select(static (filter, index) =>
            new MqttSubscription { Filter = filter, QualityOfService = (MqttQualityOfService)(index % 2) });
        var expected = filters.Select((filter, index) => (filter, index % 2));

        var packet = PlainDecoder.Decode(SubscribePacket.Write(0x1234, [.. subscriptions], version), version, isFromBroker: false);

        Assert.Equal(0x1234, packet?.PacketId);
        Assert.Equal(expected, packet!.Filters);
    }

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public void A_PUBACK_says_success(MqttVersion version)
    {
        var packet = new byte[AcknowledgementPacket.Bytes];

        AcknowledgementPacket.Write(packet, PacketType.Puback, 0xFEDC);

        Assert.Equal(new PlainPacket { Type = 4, PacketId = 0xFEDC, Codes = [0] }.Show(), PlainDecoder.Decode(packet, version, isFromBroker: false)?.Show());
    }

    [Theory]
    [InlineData(MqttVersion.V5, MqttReasonCode.Success, null, "")]
    [InlineData(MqttVersion.V5, MqttReasonCode.DisconnectWithWill, 0u, "0")]
    [InlineData(MqttVersion.V5, MqttReasonCode.MalformedPacket, uint.MaxValue, "4294967295")]
    [InlineData(MqttVersion.V311, MqttReasonCode.MalformedPacket, 7u, "")]
    public void A_DISCONNECT_says_why_and_how_long_the_session_lives(MqttVersion version, MqttReasonCode reasonCode, uint? expiry, string property)
    {
        var packet = PlainDecoder.Decode(DisconnectPacket.Write(version, reasonCode, expiry), version, isFromBroker: false);

        Assert.Equal([version == MqttVersion.V5 ? (int)reasonCode : 0], packet?.Codes);
        Assert.Equal(property, string.Concat(packet!.Properties.Select(static found => found.Value)));
    }

    private static PlainPacket Expected(ConnectFields fields)
    {
        var isFive = fields.Version == MqttVersion.V5;
        return new PlainPacket
        {
            Type = 1,
            Properties = !isFive ? [] :
            [
                .. fields.SessionExpiry == 0 ? [] : new[] { PlainProperty.Of(0x11, fields.SessionExpiry) },
                .. fields.ReceiveMaximum == 65_535 ? [] : new[] { PlainProperty.Of(0x21, fields.ReceiveMaximum) },
                .. fields.TopicAliasMaximum == 0 ? [] : new[] { PlainProperty.Of(0x22, fields.TopicAliasMaximum) },
                .. fields.MaxPacketBytes == uint.MaxValue ? [] : new[] { PlainProperty.Of(0x27, fields.MaxPacketBytes) },
            ],
            Connect = new PlainConnect
            {
                Level = isFive ? 5 : 4,
                CleanStart = fields.CleanStart,
                KeepAlive = fields.KeepAlive,
                ClientId = fields.ClientId,
                Will = fields.Will is { } will ? Expected(will, isFive) : null,
                UserName = fields.Credentials.UserName,
                Password = fields.Credentials.Password.IsEmpty ? null : fields.Credentials.Password.ToArray(),
            },
        };
    }

    private static PlainPacket Expected(MqttWill will, bool isFive) => new()
    {
        Type = 3,
        Flags = (will.Message.Retain == true ? 1 : 0) + (will.Message.QualityOfService == MqttQualityOfService.AtLeastOnce ? 2 : 0),
        Topic = will.Message.Topic,
        Payload = will.Message.Payload.ToArray(),
        Properties = !isFive ? [] :
        [
            .. SomeMessages.Properties(will.Message),
            .. will.Delay > TimeSpan.Zero ? new[] { PlainProperty.Of(0x18, (long)will.Delay.TotalSeconds) } : [],
        ],
    };
}
