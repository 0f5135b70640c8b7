using BatchKit.MQTTnet.Tests.Support;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;
using MQTTnet;
using MQTTnet.Formatter;
using MQTTnet.Packets;
using MQTTnet.Protocol;

namespace BatchKit.MQTTnet.Tests;

/// <summary>MQTTnet's own messages, published over its client to Mosquitto.</summary>
public sealed class PublishManyTests : MosquittoTest
{
    private const int Count = 3000;

    // With a smaller MaxInflight Mosquitto queues, and before 2.0.13 a QoS 1 message may overtake queued ones once a QoS 2 message completes out of turn.
    private protected override MosquittoServerOptions ServerOptions { get; } = new() { MaxInflight = Count, MaxQueued = 100_000, Lines = ["max_packet_size 2000"] };

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Each_message_has_its_own_quality_and_retain_flag_and_all_arrive(bool isBatched)
    {
        var subscriber = await SubscribeAsync();
        var client = await ConnectAsync(isBatched);

        var report = await client.PublishManyAsync(Messages.Mixed(Count)).AsTask().WithinDeadline();
        await subscriber.WaitForMessagesAsync(Count);
        var late = await SubscribeAsync();
        await late.WaitForMessagesAsync(3);

        Assert.True(report.IsSuccess);
        Assert.Equal((Count, 0), (report.Count, report.FailedMessages));
        // MQTTnet releases QoS 2 messages concurrently, so order holds for the others only.
        Assert.Equal(TextsOf(0, Count), subscriber.TextsOf(0));
        Assert.Equal(TextsOf(1, Count), subscriber.TextsOf(1));
        Assert.Equal(TextsOf(2, Count).Order(), subscriber.TextsOf(2).Order());
        Assert.Equal(["mixed/1", "mixed/3", "mixed/5"], late.Messages.Select(message => message.Topic).Order());
        Assert.All(late.Messages, message => Assert.True(message.Retain));
    }

    [Fact]
    public async Task Bad_messages_among_good_ones_are_refused_and_the_good_ones_arrive()
    {
        var subscriber = await SubscribeAsync();
        var client = await ConnectAsync();

        var report = await client.PublishManyAsync((MqttApplicationMessage[])
        [
            Messages.One("good", "1"), Messages.One("rooms/#", "wildcard"), Messages.One("good", "2", 0), Messages.One("", "none"), Messages.One("a\u0001b", "control"), Messages.One("good", "3", 2),
            Messages.One("good", new string('x', 2001)), Messages.One("good", "4", properties: [new MqttUserProperty("name", "a\tb"u8.ToArray())]),
            Messages.One("good", "5", properties: [new MqttUserProperty("name", new byte[] { 0xFF })]), Messages.One("good", "6", quality: 7), Messages.One("good", "7"),
        ]).AsTask().WithinDeadline();
        await subscriber.WaitForMessagesAsync(4);

        int[] refused = [1, 3, 4, 6, 7, 8, 9];
        Assert.Equal(refused, Enumerable.Range(0, report.Count).Where(index => !report[index].IsSuccess));
        Assert.All(refused, index => Assert.Equal(PublishManyOutcome.Refused, report[index].Outcome));
        Assert.Contains("'rooms/#'", report[1].Reason, StringComparison.Ordinal);
        Assert.Equal(["1", "2", "3", "7"], subscriber.Texts.Order());
        Assert.True(client.IsConnected);
    }

    [Fact]
    public async Task User_properties_arrive_in_order_and_are_not_copied_into_texts()
    {
        var subscriber = await SubscribeAsync();
        var client = await ConnectAsync();
        List<MqttUserProperty> properties = [new("first", "one"u8.ToArray()), new("second", ReadOnlyMemory<byte>.Empty), new("first", "again €"u8.ToArray())];

        var report = await client.PublishManyAsync((MqttApplicationMessage[])[Messages.One("a", "x", properties: properties), Messages.One("b", "y", 2, properties: properties)]).AsTask().WithinDeadline();
        await subscriber.WaitForMessagesAsync(2);

        Assert.True(report.IsSuccess);
        Assert.All(subscriber.Messages, message => Assert.Equal(["first = one", "second = ", "first = again €"], message.Properties));
    }

    [Fact]
    public async Task A_message_that_no_one_subscribes_to_succeeds_with_the_brokers_answer()
    {
        var client = await ConnectAsync();

        var report = await client.PublishManyAsync((MqttApplicationMessage[])[Messages.One("nowhere", "x"), Messages.One("nowhere", "x", 0)]).AsTask().WithinDeadline();

        Assert.True(report.IsSuccess);
        Assert.Equal((MqttClientPublishReasonCode.NoMatchingSubscribers, MqttClientPublishReasonCode.Success), (report[0].ReasonCode, report[1].ReasonCode));
        Assert.Throws<ArgumentOutOfRangeException>(() => report[2]);
    }

    [Fact]
    public async Task No_messages_need_no_connection()
    {
        var report = await MakeClient(isBatched: false).PublishManyAsync(ReadOnlyMemory<MqttApplicationMessage>.Empty);

        Assert.Equal((0, true), (report.Count, report.IsSuccess));
    }

    [Fact]
    public async Task A_null_among_the_messages_publishes_none()
    {
        var client = new ScriptedClient();

        var exception = await Assert.ThrowsAsync<ArgumentException>(() => client.PublishManyAsync((MqttApplicationMessage[])[Messages.One("a", "x"), null!]).AsTask());

        Assert.Contains("index 1", exception.Message, StringComparison.Ordinal);
        Assert.Empty(client.Publishes);
    }

    [Fact]
    public async Task A_client_that_is_not_connected_fails_the_call_immediately() =>
        await Assert.ThrowsAsync<IOException>(() => new ScriptedClient { IsConnected = false }.PublishManyAsync((MqttApplicationMessage[])[Messages.One("a", "x")]).AsTask());

    [Fact]
    public async Task A_cancelled_call_starts_no_more_although_the_window_has_capacity()
    {
        using var cancellation = new CancellationTokenSource();
        var client = new ScriptedClient();
        client.Answer = _ =>
        {
            if (client.Publishes.Count == 3)
                cancellation.Cancel();
            return Task.FromResult(ScriptedPublish.Result(MqttClientPublishReasonCode.Success));
        };

        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => client.PublishManyAsync(Messages.Mixed(10), cancellation.Token).AsTask());

        Assert.Equal(3, client.Publishes.Count);
    }

    [Fact]
    public async Task The_window_bounds_the_publishes_under_way_over_all_calls()
    {
        var client = new ScriptedClient();
        using var transport = new MqttClientTransport(client, new MqttClientTransportOptions { PublishWindow = 10 });

        var calls = Enumerable.Range(0, 3).Select(call => transport.PublishManyAsync(Messages.Mixed(30)).AsTask()).ToArray();
        var highest = 0;
        for (var acknowledged = 0; acknowledged < 90; acknowledged++)
        {
            await Until.TrueAsync(() => client.Publishes.Count > acknowledged);
            highest = Math.Max(highest, client.Publishes.Count - acknowledged);
            client.Publishes[acknowledged].Acknowledge();
        }

        var reports = await Task.WhenAll(calls).WithinDeadline();

        Assert.Equal(10, highest);
        Assert.All(reports, report => Assert.True(report.IsSuccess));
        Assert.Equal(0, transport.InFlightMessages);
    }

    [Fact]
    public async Task A_connected_client_is_assumed_to_have_a_window_of_20()
    {
        var client = new ScriptedClient();

        _ = client.PublishManyAsync(Messages.Mixed(100)).AsTask();

        Assert.Equal(20, client.Publishes.Count);
    }

    [Fact]
    public async Task A_lost_connection_fails_what_was_unanswered_and_sends_nothing_after_it()
    {
        var client = new ScriptedClient();
        using var transport = new MqttClientTransport(client, new MqttClientTransportOptions { PublishWindow = 3 });

        var publishing = transport.PublishManyAsync(Messages.Mixed(6)).AsTask();
        client.Publishes[0].Acknowledge();
        await Until.TrueAsync(() => client.Publishes.Count == 4);
        await client.BeginConnectingAsync();
        foreach (var publish in client.Publishes.Skip(1))
            publish.Fail(new IOException("gone"));
        var report = await publishing.WithinDeadline();

        PublishManyOutcome[] expected = [PublishManyOutcome.Succeeded, PublishManyOutcome.Failed, PublishManyOutcome.Failed, PublishManyOutcome.Failed, PublishManyOutcome.NotSent, PublishManyOutcome.NotSent];
        Assert.Equal(expected, Enumerable.Range(0, 6).Select(index => report[index].Outcome));
        Assert.Equal((5, 4, 0), (report.FailedMessages, client.Publishes.Count, transport.InFlightMessages));
        Assert.IsType<IOException>(report[1].Error);
    }

    [Fact]
    public async Task A_killed_broker_gives_every_message_a_result_and_the_failed_ones_can_be_published_again()
    {
        var client = await ConnectAsync();
        var messages = Enumerable.Range(0, 20_000).Select(number => Messages.One($"t/{number}", "x")).ToArray();

        var publishing = client.PublishManyAsync(messages).AsTask();
        await Server.KillAsync();
        var report = await publishing.WithinDeadline();
        await Server.StartAsync();
        await ConnectAsync(client);
        var again = await client.PublishManyAsync(messages.Where((_, index) => !report[index].IsSuccess).ToArray()).AsTask().WithinDeadline();

        Assert.Equal(messages.Length, report.Count);
        Assert.False(report.IsSuccess);
        Assert.Equal((report.FailedMessages, true), (again.Count, again.IsSuccess));
    }

    [Fact]
    public async Task A_cancellation_starts_no_more_and_leaves_what_has_started_alone()
    {
        var client = new ScriptedClient();
        using var transport = new MqttClientTransport(client, new MqttClientTransportOptions { PublishWindow = 2 });
        using var cancellation = new CancellationTokenSource();

        var publishing = transport.PublishManyAsync(Messages.Mixed(5), cancellation.Token).AsTask();
        await cancellation.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => publishing.WithinDeadline());
        var before = transport.InFlightMessages;
        client.Publishes[0].Acknowledge();
        client.Publishes[1].Fail(new IOException("gone"));

        Assert.Equal((2, 2, 0), (client.Publishes.Count, before, transport.InFlightMessages));
    }

    private static IEnumerable<string> TextsOf(int quality, int count) => Enumerable.Range(0, count).Where(number => number % 3 == quality).Select(number => $"{number}");

    private async Task<IMqttClient> ConnectAsync(bool isBatched = true)
    {
        var client = MakeClient(isBatched);
        // Before the connect, so that the window is the broker's.
        await client.PublishManyAsync(ReadOnlyMemory<MqttApplicationMessage>.Empty);
        await ConnectAsync(client);
        return client;
    }

    private Task<MqttClientConnectResult> ConnectAsync(IMqttClient client) => client.ConnectAsync(
        new MqttClientOptionsBuilder().WithProtocolVersion(MqttProtocolVersion.V500).WithClientId(Some.Name("client")).WithTcpServer(Server.Host, Server.Port).Build()).WithinDeadline();

    private async Task<Subscriber> SubscribeAsync()
    {
        var subscriber = new Subscriber(await ConnectAsync(isBatched: false));
        await subscriber.SubscribeAsync("#", MqttQualityOfServiceLevel.ExactlyOnce);
        return subscriber;
    }
}
