using System.Buffers.Binary;

namespace BatchKit.Mqtt.Tests.Publishing;

/// <summary>Packet ids as they go over the wire.</summary>
public sealed class PacketIdTests
{
    private const int Messages = 200_000;
    private const int MessagesPerCall = 10_000;

    // One that waits longer stops the sending, since then its id would be the next.
    private const int LongestHold = 65_000;

    [Theory]
    [InlineData(MqttVersion.V5, 1000)]
    [InlineData(MqttVersion.V5, 65_535)]
    [InlineData(MqttVersion.V311, 1000)]
    [InlineData(MqttVersion.V311, 65_534)]
    public async Task They_wrap_and_never_meet_one_in_use_though_some_acknowledgements_come_late_and_all_out_of_order(MqttVersion version, int window)
    {
        using var broker = new HoldingBroker(version, receiveMaximum: (ushort)window, holdEvery: 7001, LongestHold);
        var serving = broker.ServeAsync(Messages);
        await using var transport = new MqttTransport(new MqttOptions
        {
            Server = broker.Address,
            Version = version,
            ClientId = "ids",
            PublishWindow = Math.Min(window, 65_534),
            PublishTimeout = TimeSpan.FromMinutes(10),
        });

        var calls = Enumerable.Range(0, Messages / MessagesPerCall).Select(call => transport.PublishManyAsync(Numbered(call * MessagesPerCall)).AsTask()).ToArray();
        var reports = await Task.WhenAll(calls).WaitAsync(TimeSpan.FromMinutes(5));
        await transport.DisposeAsync();
        await serving.WithinDeadline();

        Assert.Null(broker.Fault);
        Assert.All(reports, report => Assert.True(report.IsSuccess));
        Assert.Equal(Messages, broker.Count);
        Assert.Equal(65_535, broker.HighestId);
        Assert.InRange(broker.MostInUse, 2, window);
        Assert.Equal((Messages, 0), (transport.GetStatistics().AcknowledgedMessages, transport.GetStatistics().ResentMessages));
    }

    private static MqttMessage[] Numbered(int first)
    {
        var messages = new MqttMessage[MessagesPerCall];
        for (var index = 0; index < messages.Length; index++)
        {
            var payload = new byte[4];
            BinaryPrimitives.WriteInt32BigEndian(payload, first + index);
            messages[index] = new MqttMessage("ids", payload);
        }

        return messages;
    }
}
