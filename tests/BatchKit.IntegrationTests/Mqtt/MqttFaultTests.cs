using System.Globalization;
using BatchKit.Mqtt;
using BatchKit.TestServers.Mosquitto;
using BatchKit.TestServers.Network;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>What holds while the broker is stopped, killed and frozen, and its connections are reset and cut.</summary>
[Trait("Lane", "faults: Mosquitto is stopped, killed, frozen and cut again and again")]
public sealed class MqttFaultTests(ITestOutputHelper report)
{
    /// <summary>How often the broker is stopped and started again: 4 times unless this environment variable says otherwise.</summary>
    private const string RestartsVariable = "BATCHKIT_TEST_MQTT_RESTARTS";

    /// <summary>How often the broker is killed: 3 times unless this environment variable says otherwise.</summary>
    private const string KillsVariable = "BATCHKIT_TEST_MQTT_KILLS";

    /// <summary>How often the broker is frozen: once unless this environment variable says otherwise.</summary>
    private const string FreezesVariable = "BATCHKIT_TEST_FREEZES";

    /// <summary>How often connections are reset or cut: 8 times unless this environment variable says otherwise.</summary>
    private const string CutsVariable = "BATCHKIT_TEST_CUTS";

    private const int Handles = 4;

    private static int Restarts => Read(RestartsVariable, 4);

    // At least; enough that each restart meets a stream.
    private static int Messages => Math.Min(200_000, 10_000 * (Restarts + 1));

    private static int Kills => Read(KillsVariable, 3);

    private static int Freezes => Read(FreezesVariable, 1);

    private static int Cuts => Read(CutsVariable, 8);

    [Theory]
    [InlineData(MqttVersion.V5, null)]
    [InlineData(MqttVersion.V311, null)]
    [InlineData(MqttVersion.V5, "frames")]
    [InlineData(MqttVersion.V311, "frames")]
    public async Task A_broker_that_is_stopped_and_started_again_loses_nothing_and_doubles_only_what_was_unacknowledged(MqttVersion version, string? envelopePrefix)
    {
        await using var server = await StartServerAsync();
        var options = MqttWay.Options(server.Port, version, envelopePrefix);
        await using var way = await MqttWay.StartAsync(options, options);

        var written = await WriteWhileAsync(way, async () =>
        {
            for (var restart = 0; restart < Restarts; restart++)
            {
                await way.Arrived.WaitForCountAsync(way.Arrived.Count + (Messages / (Restarts + 1)));
                await server.StopAsync();
                await way.WaitForLossAsync();
                await server.StartAsync();
            }

            await way.Arrived.WaitForCountAsync(Math.Max(Messages, way.Arrived.Count + (Messages / (Restarts + 1))));
        });

        report.WriteLine($"{written} messages, {Doubled(way)}, {Restarts} restarts.");
        AssertArrivedInOrder(way, written);
        AssertDoubledOnlyUnacknowledged(way, envelopePrefix);
    }

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task A_broker_that_is_killed_loses_only_what_it_had_acknowledged_and_not_delivered(MqttVersion version)
    {
        await using var server = await StartServerAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        await using var way = await MqttWay.StartAsync(MqttWay.Options(proxy.Port, version), MqttWay.Options(server.Port, version));
        var handle = MqttWay.Topic(0);
        using var stop = new CancellationTokenSource();
        var writer = way.WriteUntilAsync(handle, stop.Token);
        var acknowledged = new List<long>();

        for (var kill = 0; kill < Kills; kill++)
        {
            await way.Arrived.WaitForCountAsync(way.Arrived.Count + 5000);
            var stalled = way.NextHop.Stall();
            await stalled.EnteredAsync();
            await WaitForAcknowledgedAsync(way, way.Transport.GetStatistics().AcknowledgedMessages + 2000);
            await server.KillAsync();
            stalled.Release();
            await way.WaitForLossAsync();
            acknowledged.Add(way.Transport.GetStatistics().AcknowledgedMessages);

            // The broker has forgotten who subscribed: what is sent to it before the receiver is back reaches nobody.
            proxy.Stall();
            await server.StartAsync();
            await way.WaitUntilReceivingAsync();
            proxy.Resume();
        }

        await way.Arrived.WaitForCountAsync(way.Arrived.Count + 5000);
        await stop.CancelAsync();
        var written = await writer.WithinDeadline();
        await way.Arrived.WaitForCountAsync(written - way.Arrived.Gaps.Sum(gap => gap.Count));
        var gaps = way.Arrived.Gaps;
        report.WriteLine($"{written} messages, {gaps.Sum(gap => gap.Count)} lost that Mosquitto had acknowledged, {way.Arrived.Repeats} doubled.");
        way.AssertAllAcknowledged();
        Assert.Equal(written, way.Arrived.NextOf(handle));
        Assert.InRange(gaps.Count, 1, acknowledged.Count);
        Assert.All(gaps, gap => Assert.Contains(acknowledged, before => gap.End <= before));
    }

    [Theory]
    [InlineData(MqttVersion.V5, null)]
    [InlineData(MqttVersion.V311, null)]
    [InlineData(MqttVersion.V5, "frames")]
    public async Task A_broker_that_is_frozen_loses_nothing(MqttVersion version, string? envelopePrefix)
    {
        await using var server = await StartServerAsync();
        var options = MqttWay.Options(server.Port, version, envelopePrefix);
        options.KeepAlive = TimeSpan.FromSeconds(1);
        await using var way = await MqttWay.StartAsync(options, options);

        var written = await WriteWhileAsync(way, async () =>
        {
            for (var freeze = 0; freeze < Freezes; freeze++)
            {
                await way.Arrived.WaitForCountAsync(way.Arrived.Count + 5000);
                server.Freeze();
                try
                {
                    await way.WaitForLossAsync();
                }
                finally
                {
                    server.Thaw();
                }
            }

            await way.Arrived.WaitForCountAsync(way.Arrived.Count + 5000);
        });

        report.WriteLine($"{written} messages, {Doubled(way)}.");
        AssertArrivedInOrder(way, written);
        AssertDoubledOnlyUnacknowledged(way, envelopePrefix);
    }

    [Theory]
    [InlineData(MqttVersion.V5, null, "reset")]
    [InlineData(MqttVersion.V311, null, "reset")]
    [InlineData(MqttVersion.V5, null, "cut in mid-packet")]
    [InlineData(MqttVersion.V311, null, "cut in mid-packet")]
    [InlineData(MqttVersion.V5, "frames", "reset")]
    [InlineData(MqttVersion.V311, "frames", "cut in mid-packet")]
    public async Task Broken_connections_neither_lose_nor_reorder(MqttVersion version, string? envelopePrefix, string how)
    {
        var rounds = Cuts;
        await using var server = await StartServerAsync();
        await using var sendingProxy = TcpProxy.Start(server.Host, server.Port);
        await using var receivingProxy = TcpProxy.Start(server.Host, server.Port);
        await using var way = await MqttWay.StartAsync(
            MqttWay.Options(sendingProxy.Port, version, envelopePrefix), MqttWay.Options(receivingProxy.Port, version, envelopePrefix));
        var random = new Random(20);

        var written = await WriteWhileAsync(way, async () =>
        {
            for (var round = 0; round < rounds; round++)
            {
                await way.Arrived.WaitForCountAsync(way.Arrived.Count + 1000);
                if (how == "reset")
                    sendingProxy.ResetAll();
                else
                    sendingProxy.CutAfter(random.Next(1, 2000));
                if (round % 2 == 0)
                    receivingProxy.ResetAll();
            }

            await way.Arrived.WaitForCountAsync(way.Arrived.Count + 1000);
        });

        report.WriteLine($"{written} messages, {Doubled(way)}, {rounds} rounds.");
        AssertArrivedInOrder(way, written);
        AssertDoubledOnlyUnacknowledged(way, envelopePrefix);
        Assert.True(sendingProxy.AcceptedConnections > rounds / 2, $"Only {sendingProxy.AcceptedConnections} connections were made.");
    }

    private static int Read(string variable, int usual) => int.TryParse(Environment.GetEnvironmentVariable(variable), CultureInfo.InvariantCulture, out var given) ? given : usual;

    // Without a limit on what it keeps for a client: above its default, 1,000, Mosquitto drops in silence.
    private static Task<MosquittoServer> StartServerAsync()
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        return MosquittoServer.StartOwnAsync(new MosquittoServerOptions { MaxQueued = 0 });
    }

    /// <summary>Writes to several handles while something is done to the broker, and then waits until all has arrived.</summary>
    /// <remarks>
    /// In step with the receiver, so that little is under way. A subscriber's window would bound it too, but Mosquitto before 2.0.13 keeps to one only while nothing waits behind it: for the
    /// acknowledgement of the oldest message it sends as many as the whole window holds.
    /// </remarks>
    private static async Task<long> WriteWhileAsync(MqttWay way, Func<Task> actAsync)
    {
        using var stop = new CancellationTokenSource();
        var writers = Enumerable.Range(0, Handles).Select(number => way.WriteInStepUntilAsync(MqttWay.Topic(number), stop.Token)).ToArray();
        try
        {
            await actAsync();
        }
        catch (TimeoutException exception)
        {
            throw new TimeoutException($"{exception.Message} {way.Describe()}", exception);
        }
        finally
        {
            await stop.CancelAsync();
        }

        var written = await Task.WhenAll(writers).WithinDeadline();
        await way.Arrived.WaitForCountAsync(written.Sum());
        await way.Receiver.StopAsync(CancellationToken.None).WithinDeadline();
        return written.Sum();
    }

    private static Task WaitForAcknowledgedAsync(MqttWay way, long count) => Until.TrueAsync(() => way.Transport.GetStatistics().AcknowledgedMessages >= count);

    private static string Doubled(MqttWay way) =>
        $"{way.Arrived.Repeats} doubled, {way.Arrived.OldestRepeat} behind at most, {way.Transport.GetStatistics().ResentMessages} packets sent again by the publisher";

    private static void AssertArrivedInOrder(MqttWay way, long written)
    {
        way.AssertAllAcknowledged();
        Assert.Empty(way.Arrived.Gaps);
        Assert.Equal(written, way.Arrived.Count);
    }

    // What each side had under way on a lost connection, and those are the newest. The publisher waits for a scope of each handle; the broker may miss the acknowledgements of three, of which
    // one is being handed on, one lies before the receiver, and one's acknowledgements are on their way.
    private static void AssertDoubledOnlyUnacknowledged(MqttWay way, string? envelopePrefix)
    {
        const int scopesBehindBroker = 3;
        const int underWay = Handles * MqttWay.MessagesPerScope;
        var publisher = way.Transport.GetStatistics();
        var byPublisher = (publisher.Connects - 1) * underWay;
        var byBroker = (way.ReceiverConnects - 1) * scopesBehindBroker * underWay;
        Assert.InRange(publisher.ResentMessages, 0, byPublisher);
        Assert.InRange(way.Arrived.Repeats, 0, envelopePrefix is null ? byPublisher + byBroker : 0);
        Assert.InRange(way.Arrived.OldestRepeat, 0, scopesBehindBroker * MqttWay.MessagesPerScope);
    }
}
