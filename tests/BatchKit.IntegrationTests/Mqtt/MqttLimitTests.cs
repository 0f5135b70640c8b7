using System.Globalization;
using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>A broker's limits, and a message that can't be sent among others that can.</summary>
public sealed class MqttLimitTests
{
    private const int MaxPacketBytes = 2000;

    // A packet id each, less zero and the one that is to come.
    private const int LargestWindow = 65_534;

    [Theory]
    [InlineData(MqttVersion.V5, 1, 1, 1500)]
    [InlineData(MqttVersion.V5, 20, 20, 30_000)]
    [InlineData(MqttVersion.V5, 65_535, LargestWindow, 100_000)]
    [InlineData(MqttVersion.V311, 20, LargestWindow, 100_000)]
    [Trait("Lane", "night: one rule for each way to connect")]
    public async Task The_window_is_the_brokers_receive_maximum_which_3_1_1_has_not(MqttVersion version, int maxInflight, int window, int messages)
    {
        await using var server = await StartServerAsync(new MosquittoServerOptions { MaxInflight = maxInflight, MaxQueued = 0 });
        var options = MqttWay.Options(server.Port, version);
        options.PublishWindow = LargestWindow;
        options.PublishTimeout = TimeSpan.FromMinutes(5);
        await using var way = await MqttWay.StartAsync(options, options);

        var report = await way.Transport.PublishManyAsync(Array.ConvertAll([.. Enumerable.Range(0, messages)], number => Message("way/0", number)));

        await way.Arrived.WaitForCountAsync(messages);
        var statistics = way.Transport.GetStatistics();
        Assert.True(report.IsSuccess);
        Assert.Equal((window, 0, messages), (statistics.Window, statistics.InFlightMessages, statistics.AcknowledgedMessages));
        Assert.Equal((1, 0), (statistics.Connects, statistics.ResentMessages));
        Assert.Empty(way.Arrived.Gaps);
        Assert.Equal(0, way.Arrived.Repeats);
    }

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task A_message_above_the_largest_packet_is_refused_and_its_neighbours_arrive(MqttVersion version)
    {
        await using var server = await StartServerAsync(new MosquittoServerOptions { Lines = [$"max_packet_size {MaxPacketBytes}"] });
        var options = MqttWay.Options(server.Port, version);

        // A 3.1.1 broker has no way to tell its own.
        if (version == MqttVersion.V311)
            options.MaxPacketBytes = MaxPacketBytes;
        await using var way = await MqttWay.StartAsync(options, MqttWay.Options(server.Port, version));

        var report = await way.Transport.PublishManyAsync(
            new[] { Message("way/0", 0), new MqttMessage("way/0", new byte[MaxPacketBytes]), Message("way/0", 1) });
        var longTopic = OutputHandle.Named($"way/{new string('x', 100)}");
        var scope = way.Output.BeginBufferingScope();
        way.Output.Write(MqttWay.Topic(1), "0"u8);
        var tooLarge = new byte[Math.Min(MaxPacketBytes, way.Transport.MaxMessageBytes)];
        // Only a limit that is known at the start is one of the write.
        if (version == MqttVersion.V311)
            Assert.Throws<OutputOverflowException>(() => way.Output.Write(longTopic, tooLarge));
        else
            way.Output.Write(longTopic, tooLarge);
        way.Output.Write(MqttWay.Topic(3), "0"u8);
        var failure = await Record.ExceptionAsync(() => scope.DisposeAsync().WithinDeadline());

        await way.Arrived.WaitForCountAsync(4);
        Assert.Equal([MqttReasonCode.Success, MqttReasonCode.PacketTooLarge, MqttReasonCode.Success], Enumerable.Range(0, 3).Select(index => report[index].ReasonCode));
        Assert.Contains($"{MaxPacketBytes}", report[1].Reason, StringComparison.Ordinal);
        Assert.Equal(version == MqttVersion.V311 ? 0 : 1, (failure as OutputDeliveryException)?.LostMessages ?? 0);
        Assert.Empty(way.Arrived.Gaps);
        Assert.Equal(1, way.Transport.GetStatistics().Connects);
    }

    [Theory]
    [InlineData(MqttVersion.V5, true)]
    [InlineData(MqttVersion.V5, false)]
    [InlineData(MqttVersion.V311, false)]
    public async Task A_packet_has_up_to_the_bytes_that_the_broker_or_the_sender_allows(MqttVersion version, bool isBrokersLimit)
    {
        await using var server = await StartServerAsync(new MosquittoServerOptions { Lines = isBrokersLimit ? [$"max_packet_size {MaxPacketBytes}"] : [] });
        var options = MqttWay.Options(server.Port, version);
        if (!isBrokersLimit)
            options.MaxPacketBytes = MaxPacketBytes;
        await using var way = await MqttWay.StartAsync(options, MqttWay.Options(server.Port, version));

        var report = await way.Transport.PublishManyAsync(new[] { Sized(0, -1, version), Sized(1, 0, version), Sized(2, 1, version), Sized(2, -1000, version) });

        await way.Arrived.WaitForCountAsync(3);
        Assert.Equal([MqttReasonCode.Success, MqttReasonCode.Success, MqttReasonCode.PacketTooLarge, MqttReasonCode.Success], Enumerable.Range(0, 4).Select(index => report[index].ReasonCode));
        Assert.Contains($"needs a packet of {MaxPacketBytes + 1} bytes", report[2].Reason, StringComparison.Ordinal);
        Assert.Contains($" {MaxPacketBytes} at most", report[2].Reason, StringComparison.Ordinal);
        Assert.Equal(1, way.Transport.GetStatistics().Connects);
    }

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task A_receiver_goes_on_behind_packets_of_its_own_limit_and_above_it(MqttVersion version)
    {
        await using var server = await StartServerAsync(new MosquittoServerOptions());
        var receiving = MqttWay.Options(server.Port, version);
        receiving.MaxPacketBytes = MaxPacketBytes;
        await using var way = await MqttWay.StartAsync(MqttWay.Options(server.Port, version), receiving);

        // Mosquitto does not count a packet's first byte: of those above the limit the second is dropped, over 3.1.1 by the receiver.
        var report = await way.Transport.PublishManyAsync(
            new[] { Sized(0, -1, version), Sized(1, 0, version), Sized(2, 1, version), Sized(3, 2, version), Sized(3, 500_000, version), Sized(3, -1000, version) });

        await way.Arrived.WaitForCountAsync(4);
        Assert.True(report.IsSuccess);
        Assert.Equal(1, way.ReceiverConnects);
        Assert.Null(way.Receiver.Fault);
    }

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task One_bad_topic_among_a_thousand_messages_is_reported_and_the_others_arrive(MqttVersion version)
    {
        await using var server = await StartServerAsync(new MosquittoServerOptions { MaxQueued = 0 });
        var options = MqttWay.Options(server.Port, version);
        await using var way = await MqttWay.StartAsync(options, options);
        var topics = Enumerable.Range(0, 1000).Select(number => number == 500 ? "way/+/bad" : $"way/{number}").ToArray();

        var report = await way.Transport.PublishManyAsync(Array.ConvertAll(topics, topic => Message(topic, 0)));
        await way.Arrived.WaitForCountAsync(999);
        var scope = way.Output.BeginBufferingScope();
        foreach (var topic in topics)
            way.Output.Write(OutputHandle.Named(topic), "1"u8);
        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().WithinDeadline());
        await way.Arrived.WaitForCountAsync(2 * 999);

        Assert.Equal([500], Enumerable.Range(0, 1000).Where(index => !report[index].IsSuccess));
        Assert.Equal(MqttReasonCode.TopicNameInvalid, report[500].ReasonCode);
        Assert.Contains("way/+/bad", report[500].Reason, StringComparison.Ordinal);
        Assert.Equal(1, failure.LostMessages);
        var statistics = way.Output.GetStatistics();
        Assert.Equal((999, 1), (statistics.AcknowledgedMessages, statistics.FailedMessages));
        Assert.Empty(way.Arrived.Gaps);
        Assert.Equal(0, way.Arrived.Repeats);
    }

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task A_topic_for_which_the_broker_ends_the_connection_is_refused_alone(MqttVersion version)
    {
        await using var server = await StartServerAsync(new MosquittoServerOptions { MaxQueued = 0 });
        var options = MqttWay.Options(server.Port, version);
        await using var way = await MqttWay.StartAsync(options, options);

        // Mosquitto accepts 200 levels.
        var tooDeep = string.Join('/', Enumerable.Repeat("way", 250));
        var messages = Enumerable.Range(0, 100).Select(number => number == 50 ? Message(tooDeep, 0) : Message("way/0", number < 50 ? number : number - 1)).ToArray();
        var report = await way.Transport.PublishManyAsync(messages);
        await way.Arrived.WaitForCountAsync(99);
        var scope = way.Output.BeginBufferingScope();
        for (var number = 0; number < 100; number++)
            way.Output.Write(number == 50 ? OutputHandle.Named(tooDeep) : MqttWay.Topic(1), Message("", number < 50 ? number : number - 1).Payload.Span);
        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().WithinDeadline());
        await way.Arrived.WaitForCountAsync(2 * 99);

        Assert.Equal(1, failure.LostMessages);
        Assert.Equal([50], Enumerable.Range(0, 100).Where(index => !report[index].IsSuccess));
        Assert.Contains("connection", report[50].Reason, StringComparison.Ordinal);
        Assert.Empty(way.Arrived.Gaps);
        Assert.Null(way.Transport.Fault);
    }

    private static Task<MosquittoServer> StartServerAsync(MosquittoServerOptions options)
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        return MosquittoServer.StartOwnAsync(options);
    }

    // A message with a number, whose packet is so many bytes above the limit.
    private static MqttMessage Sized(int number, int above, MqttVersion version = MqttVersion.V5)
    {
        var overhead = 1 + 2 + 2 + "way/0".Length + 2 + (version == MqttVersion.V5 ? 1 : 0);
        return new("way/0", Some.Bytes(number.ToString(CultureInfo.InvariantCulture).PadRight(MaxPacketBytes - overhead + above)));
    }

    private static MqttMessage Message(string topic, int number) => new(topic, Some.Bytes(number.ToString(CultureInfo.InvariantCulture)));
}
