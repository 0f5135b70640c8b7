using System.Globalization;
using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>What holds for a sender at one broker and a receiver at another, where a bridge connects the brokers.</summary>
[Trait("Lane", "night: bridges are cut, and connect again after seconds")]
public sealed class MqttBridgeTests(ITestOutputHelper log)
{
    /// <summary>How often the bridge's connection is cut in each test; twice unless this environment variable says otherwise.</summary>
    private const string CutsVariable = "BATCHKIT_TEST_BRIDGE_CUTS";

    private const string Mqtt5 = "mqttv50";
    private const string Mqtt311 = "mqttv311";
    private const int Several = 400;
    private const int MostBytesUntilCut = 20_000;

    private static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(10);

    private static int Cuts => int.Parse(Environment.GetEnvironmentVariable(CutsVariable) ?? "2", CultureInfo.InvariantCulture);

    [Theory]
    [InlineData(Mqtt5, false)]
    [InlineData(Mqtt311, true)]
    public async Task Frames_cross_a_bridge_once_and_in_order(string protocol, bool towardsFirst)
    {
        await using var bridge = await StartAsync(protocol);

        var (arrived, written) = await CrossAsync(bridge, towardsFirst, Some.Connection(MqttWay.Node), Some.Name("frames"), cuts: 0);

        Assert.Equal((written, 0, 0), (arrived.Count, arrived.Gaps.Count, arrived.Repeats));
    }

    // A bridge that is back lets new messages overtake those that waited for it, and a receiver of frames drops what was overtaken as a repeat.
    [Fact]
    public async Task Frames_cross_a_bridge_that_is_cut_at_most_once_and_in_order()
    {
        await using var bridge = await StartAsync(Mqtt5);

        var (arrived, _) = await CrossAsync(bridge, towardsFirst: false, Some.Connection(MqttWay.Node), Some.Name("frames"), Cuts);

        Assert.Equal(0, arrived.Repeats);
    }

    [Fact]
    public async Task Messages_on_topics_cross_a_bridge_that_is_cut_at_least_once()
    {
        await using var bridge = await StartAsync(Mqtt5);

        var (arrived, written) = await CrossAsync(bridge, towardsFirst: true, MqttWay.Topic(1), envelopePrefix: null, Cuts);

        Assert.Equal(written, arrived.Count + arrived.Late);
    }

    [Theory]
    [InlineData(Mqtt5, "text/plain")]
    [InlineData(Mqtt311, null)]
    public async Task Headers_cross_a_bridge_of_MQTT_5_only(string protocol, string? contentType)
    {
        await using var bridge = await StartAsync(protocol);
        var arrived = new CollectingTransport();
        await using var receiver = await MqttEnds.StartAsync(MqttSome.Below(bridge.Second, "way"), arrived);
        await using var transport = new MqttTransport(MqttSome.Options(bridge.First));

        var batch = MessageBatch.Create(MqttWay.Topic(1), Some.Producer(), 1, Some.Message("line", new MessageHeader { ContentType = "text/plain" }));
        await transport.SendAsync(new[] { batch }, CancellationToken.None).WithinDeadline();
        await arrived.WaitForMessagesAsync(1);

        Assert.Equal(contentType, Assert.Single(arrived.Messages).Header?.ContentType);
    }

    // The brokers keep what waits for the other one in its session, which exists from the bridge's first connection.
    private static async Task<MosquittoBridge> StartAsync(string protocol)
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        var bridge = await MosquittoBridge.StartAsync(protocol);
        foreach (var (from, to) in new[] { (bridge.First, bridge.Second), (bridge.Second, bridge.First) })
        {
            var arrived = new CollectingTransport();
            await using var receiver = await MqttEnds.StartAsync(MqttSome.Below(to, "probe"), arrived);
            await using var transport = new MqttTransport(MqttSome.Options(from));
            await Until.TrueAsync(async () =>
            {
                await transport.PublishManyAsync(new[] { new MqttMessage("probe/a", Some.Bytes("here")) });
                return arrived.MessageCount > 0;
            });
        }

        return bridge;
    }

    private async Task<(NumberedArrivals Arrived, long Written)> CrossAsync(MosquittoBridge bridge, bool towardsFirst, OutputHandle handle, string? envelopePrefix, int cuts)
    {
        var (from, to) = towardsFirst ? (bridge.Second, bridge.First) : (bridge.First, bridge.Second);
        await using var way = await MqttWay.StartAsync(
            MqttWay.Options(from.Port, MqttVersion.V5, envelopePrefix), MqttWay.Options(to.Port, MqttVersion.V5, envelopePrefix));
        using var stop = new CancellationTokenSource();
        var writer = way.WriteUntilAsync(handle, stop.Token, Pause);

        for (var cut = 0; cut < cuts; cut++)
        {
            await way.Arrived.WaitForCountAsync(way.Arrived.Count + Several);
            if (cut % 2 == 0)
                bridge.Link.CutAfter(Random.Shared.Next(MostBytesUntilCut));
            else
                bridge.Link.ResetAll();
        }

        await way.Arrived.WaitForCountAsync(way.Arrived.Count + Several);
        await stop.CancelAsync();
        var written = await writer.WithinDeadline();
        await way.Arrived.WaitForNextAsync(handle, written);
        log.WriteLine($"{written} messages, {way.Arrived.Count} in order, {way.Arrived.Gaps.Sum(gap => gap.Count)} passed over");
        if (envelopePrefix is null)
        {
            var (inOrder, passedOver) = (way.Arrived.Count, way.Arrived.Gaps.Sum(gap => gap.Count));
            await Until.TrueAsync(() => Task.FromResult(way.Arrived.Late == passedOver), () => Task.FromResult((long)way.Arrived.Late),
                $"of {written} messages {inOrder} came in order; all {passedOver} that were passed over come late");
        }

        way.AssertAllAcknowledged();
        log.WriteLine($"{cuts} cuts, {way.Arrived.Late} of those came late, {way.Arrived.Repeats} messages came again");
        return (way.Arrived, written);
    }
}
