using BatchKit.Mqtt.Packets;
using BatchKit.Testing;

namespace BatchKit.Mqtt.Tests.Packets;

public sealed class WritingAllocationTests
{
    private const int Rounds = 1000;

    private static readonly KeyValuePair<string, string>[] Pairs = [.. Enumerable.Range(1, 5).Select(static number => new KeyValuePair<string, string>($"property-{number}", $"wert ä {number}"))];
    private static readonly MqttMessage Message = new("world/räume/17/temperature", Some.RandomBytes(100))
    {
        QualityOfService = MqttQualityOfService.AtLeastOnce,
        UserProperties = Pairs,
        ContentType = "application/json",
        ResponseTopic = "answers/😀",
        CorrelationData = Some.RandomBytes(8),
        Expiry = TimeSpan.FromSeconds(60),
    };

    private readonly byte[] _target = new byte[1024];

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public void Writing_a_PUBLISH_or_a_PUBACK_allocates_nothing(MqttVersion version) => Assert.Equal(0, Allocations.Least(() => WriteMany(version)));

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public void Reading_a_PUBLISH_or_a_plain_PUBACK_allocates_nothing(MqttVersion version)
    {
        var fields = SomeMessages.Fields(Message);
        var length = PublishPacket.Write(_target, fields, version, packetId: 1, isDuplicate: false);

        Assert.Equal(0, Allocations.Least(() => ReadMany(version, length)));
    }

    private void WriteMany(MqttVersion version)
    {
        var fields = SomeMessages.Fields(Message);
        for (var round = 1; round <= Rounds; round++)
        {
            Assert.Null(PublishPacket.FindFault(fields, version));
            var bytes = PublishPacket.Measure(fields, version);
            if (PublishPacket.Write(_target, fields, version, (ushort)round, isDuplicate: false) != bytes)
                Assert.Fail("It was measured wrongly.");
            AcknowledgementPacket.Write(_target, PacketType.Puback, (ushort)round);
        }
    }

    private void ReadMany(MqttVersion version, int length)
    {
        for (var round = 1; round <= Rounds; round++)
        {
            if (!PacketHeader.TryRead(_target, _target.Length, out var header, out var headerBytes))
                Assert.Fail("There is no header.");
            if (PublishPacket.Read(header, _target.AsSpan(headerBytes, length - headerBytes), version).PacketId != 1 || PubackPacket.Read([0, 1], version, out _, out _) != 1)
                Assert.Fail("It was read wrongly.");
        }
    }
}
