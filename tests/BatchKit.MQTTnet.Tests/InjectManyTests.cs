using BatchKit.MQTTnet.Tests.Support;
using BatchKit.Testing;
using MQTTnet;
using MQTTnet.Packets;
using MQTTnet.Protocol;
using MQTTnet.Server;

namespace BatchKit.MQTTnet.Tests;

/// <summary>MQTTnet's own messages, injected into its server.</summary>
public sealed class InjectManyTests : IAsyncLifetime
{
    private const int Count = 6000;

    private TestServer _server = null!;

    // Its defaults: 1000 pending messages a client.
    public async ValueTask InitializeAsync() => _server = await TestServer.StartAsync();

    public ValueTask DisposeAsync() => _server.DisposeAsync();

    [Fact]
    public async Task Each_message_has_its_own_quality_and_retain_flag_and_a_reader_loses_none()
    {
        using var transport = Make();
        var subscriber = await Subscriber.StartAsync(_server, "#", MqttQualityOfServiceLevel.ExactlyOnce);

        var report = await transport.InjectManyAsync(Messages.Mixed(Count)).AsTask().WithinDeadline();
        Assert.Equal((Count, true, 0), (report.Messages.Count, report.Messages.IsSuccess, report.DroppedMessages));
        await subscriber.WaitForMessagesAsync(Count);
        var late = await Subscriber.StartAsync(_server);
        await late.WaitForMessagesAsync(3);

        foreach (var quality in Enumerable.Range(0, 3))
        {
            Assert.Equal(Enumerable.Range(0, Count).Where(number => number % 3 == quality).Select(number => $"{number}"),
                subscriber.TextsOf(quality));
        }

        Assert.Equal(["mixed/1", "mixed/3", "mixed/5"], late.Messages.Select(message => message.Topic).Order());
    }

    [Fact]
    public async Task Bad_messages_among_good_ones_are_refused_and_the_good_ones_arrive()
    {
        var subscriber = await Subscriber.StartAsync(_server);

        var report = await _server.Server.InjectManyAsync((MqttApplicationMessage[])
        [
            Messages.One("good", "1"), Messages.One("rooms/#", "wildcard"), Messages.One("good", "2", 0), Messages.One("", "none"),
            Messages.One("good", "bad", properties: [new MqttUserProperty("name", "a\tb"u8.ToArray())]), Messages.One("good", "3", 2),
        ]).AsTask().WithinDeadline();
        await subscriber.WaitForMessagesAsync(3);

        Assert.Equal([1, 3, 4], Enumerable.Range(0, 6).Where(index => report.Messages[index].Outcome == PublishManyOutcome.Refused));
        Assert.Equal(3, report.Messages.FailedMessages);
        Assert.Equal(["1", "2", "3"], subscriber.Texts);
    }

    [Fact]
    public async Task The_reason_code_of_an_intercepting_handler_and_the_lack_of_subscribers_are_reported()
    {
        _server.Server.InterceptingPublishAsync += occurrence =>
        {
            if (occurrence.ApplicationMessage.Topic == "forbidden")
                (occurrence.Response.ReasonCode, occurrence.ProcessPublish) = (MqttPubAckReasonCode.NotAuthorized, false);
            return occurrence.ApplicationMessage.Topic == "defect" ? throw new FormatException("a defect") : Task.CompletedTask;
        };
        var subscriber = await Subscriber.StartAsync(_server, "good");

        var report = (await _server.Server.InjectManyAsync(
            (MqttApplicationMessage[])[Messages.One("forbidden", "x"), Messages.One("defect", "x"), Messages.One("good", "x"), Messages.One("nowhere", "x")]).AsTask().WithinDeadline()).Messages;
        await subscriber.WaitForMessagesAsync(1);

        Assert.Equal((PublishManyOutcome.Refused, MqttClientPublishReasonCode.NotAuthorized), (report[0].Outcome, report[0].ReasonCode));
        Assert.Equal(PublishManyOutcome.Failed, report[1].Outcome);
        Assert.IsType<FormatException>(report[1].Error);
        Assert.Equal(MqttClientPublishReasonCode.Success, report[2].ReasonCode);
        Assert.Equal((true, MqttClientPublishReasonCode.NoMatchingSubscribers), (report[3].IsSuccess, report[3].ReasonCode));
    }

    [Fact]
    public async Task User_properties_arrive_in_order()
    {
        var subscriber = await Subscriber.StartAsync(_server);
        List<MqttUserProperty> properties = [new("first", "one"u8.ToArray()), new("second", ReadOnlyMemory<byte>.Empty), new("first", "again €"u8.ToArray())];

        await _server.Server.InjectManyAsync((MqttApplicationMessage[])[Messages.One("a", "x", properties: properties), Messages.One("b", "y", 0, properties: properties)]).AsTask().WithinDeadline();
        await subscriber.WaitForMessagesAsync(2);

        Assert.All(subscriber.Messages, message => Assert.Equal(["first = one", "second = ", "first = again €"], message.Properties));
    }

    [Fact]
    public async Task Messages_that_the_server_drops_for_a_subscriber_that_does_not_read_are_counted()
    {
        using var transport = new MqttServerTransport(_server.Server, new MqttServerTransportOptions { SlowSubscriberTimeout = TimeSpan.FromMilliseconds(10) });
        using var stuck = await StuckSubscriber.StartAsync(_server);
        var messages = Enumerable.Repeat(Messages.One("topic", new string('x', 2000)), 10_000).ToArray();

        var report = await transport.InjectManyAsync(messages).AsTask().WithinDeadline();

        Assert.True(report.Messages.IsSuccess);
        Assert.InRange(report.DroppedMessages, 1, messages.Length);
        Assert.Equal(transport.GetStatistics().DroppedMessages, report.DroppedMessages);
    }

    [Fact]
    public async Task A_cancellation_while_it_waits_for_a_subscriber_injects_no_more()
    {
        var time = new ManualTimeProvider();
        using var transport = new MqttServerTransport(_server.Server, timeProvider: time);
        using var stuck = await StuckSubscriber.StartAsync(_server);
        using var cancellation = new CancellationTokenSource();

        var injecting = transport.InjectManyAsync(Enumerable.Repeat(Messages.One("topic", new string('x', 2000)), 50_000).ToArray(), cancellation.Token).AsTask();
        await time.WaitForTimersAsync();
        await cancellation.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => injecting.WithinDeadline());

        Assert.InRange(transport.GetStatistics().InjectedMessages, 1, 49_999);
        Assert.Equal(0, transport.GetStatistics().DroppedMessages);
    }

    [Fact]
    public async Task A_call_that_is_cancelled_at_any_message_injects_a_first_part_once_and_the_next_call_whole()
    {
        const int most = 40;
        using var transport = Make();
        var subscriber = await Subscriber.StartAsync(_server);
        CancellationTokenSource? cancellation = null;
        var (left, whole) = (0, new List<string>());
        _server.Server.InterceptingPublishAsync += _ => left-- == 0 ? cancellation!.CancelAsync() : Task.CompletedTask;
        var calls = Cancellations.Count(usual: 200);

        for (var call = 0; call < calls; call++)
        {
            using var ours = cancellation = new CancellationTokenSource();
            var size = 2 + (call % most);
            left = call % (size - 1);
            await Assert.ThrowsAnyAsync<OperationCanceledException>(() => transport.InjectManyAsync(Numbered($"cancelled {call}", size), ours.Token).AsTask().WithinDeadline());
            left = -1;
            Assert.True((await transport.InjectManyAsync(Numbered($"whole {call}", 3)).AsTask().WithinDeadline()).Messages.IsSuccess);
            whole.AddRange(Texts($"whole {call}", 3));
        }

        await subscriber.WaitForMessagesAsync((int)transport.GetStatistics().InjectedMessages);
        var arrived = subscriber.Texts.ToArray();
        Assert.Equal(whole, arrived.Where(static text => text.StartsWith("whole", StringComparison.Ordinal)));
        Assert.All(arrived.Where(static text => text.StartsWith("cancelled", StringComparison.Ordinal)).GroupBy(static text => text[..text.LastIndexOf(' ')], StringComparer.Ordinal),
            static part => Assert.Equal(Texts(part.Key, part.Count()), part));
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_handler_of_the_server_may_inject_beside_the_call_that_waits_for_it(bool isAwaited)
    {
        using var transport = Make();
        var audits = new List<Task>();
        _server.Server.InterceptingPublishAsync += occurrence =>
        {
            if (occurrence.ApplicationMessage.Topic == "audit")
                return Task.CompletedTask;
            var auditing = transport.InjectManyAsync(new[] { Messages.One("audit", "x"), Messages.One("audit", "y") }).AsTask();
            audits.Add(auditing);
            return isAwaited ? auditing : Task.CompletedTask;
        };
        var subscriber = await Subscriber.StartAsync(_server);
        var all = Messages.Mixed(Count);

        await transport.InjectManyAsync(all).AsTask().WithinDeadline();
        await Task.WhenAll(audits).WithinDeadline();
        await subscriber.WaitForMessagesAsync(3 * all.Length);

        Assert.Equal(0, transport.GetStatistics().DroppedMessages);
        Assert.Equal(3 * all.Length, transport.GetStatistics().InjectedMessages);
    }

    [Fact]
    public async Task A_handler_that_hangs_fails_its_message_and_holds_up_the_others_for_a_limited_time()
    {
        var time = new ManualTimeProvider();
        using var transport = new MqttServerTransport(_server.Server, timeProvider: time);
        var hung = new TaskCompletionSource();
        _server.Server.InterceptingPublishAsync += occurrence => occurrence.ApplicationMessage.Topic == "hang" ? hung.Task : Task.CompletedTask;
        var subscriber = await Subscriber.StartAsync(_server);

        var injecting = transport.InjectManyAsync((MqttApplicationMessage[])[Messages.One("hang", "1"), Messages.One("good", "2"), Messages.One("hang", "3"), Messages.One("good", "4")]).AsTask();
        foreach (var limit in new[] { TimeSpan.FromSeconds(10), TimeSpan.FromMilliseconds(200) })
        {
            await time.WaitForTimersAsync();
            time.Advance(limit);
        }

        var report = (await injecting.WithinDeadline()).Messages;
        await subscriber.WaitForMessagesAsync(2);
        Assert.Equal(["2", "4"], subscriber.Texts);
        Assert.Equal([0, 2], Enumerable.Range(0, 4).Where(index => report[index].Outcome == PublishManyOutcome.Failed));
        Assert.Contains("has kept the message for longer than 00:00:10", report[0].Reason, StringComparison.Ordinal);
        hung.SetResult();
    }

    [Fact]
    public async Task Messages_after_the_servers_stop_fail()
    {
        using var transport = Make();
        var injected = 0;
        _server.Server.InterceptingPublishAsync += _ => Interlocked.Increment(ref injected) == 3 ? _server.Server.StopAsync(new MqttServerStopOptions()) : Task.CompletedTask;

        var report = (await transport.InjectManyAsync(Messages.Mixed(5)).AsTask().WithinDeadline()).Messages;

        Assert.Equal([3, 4], Enumerable.Range(0, 5).Where(index => report[index].Outcome == PublishManyOutcome.Failed));
        Assert.All([3, 4], index => Assert.NotNull(report[index].Error));
    }

    [Fact]
    public async Task A_server_that_is_not_started_fails_the_call()
    {
        await using var server = TestServer.Make();

        await Assert.ThrowsAsync<IOException>(() => server.Server.InjectManyAsync((MqttApplicationMessage[])[Messages.One("a", "x")]).AsTask());
        var report = await server.Server.InjectManyAsync(ReadOnlyMemory<MqttApplicationMessage>.Empty);

        Assert.Equal((0, true), (report.Messages.Count, report.Messages.IsSuccess));
    }

    [Fact]
    public async Task A_null_among_the_messages_injects_none()
    {
        using var transport = Make();

        await Assert.ThrowsAsync<ArgumentException>(() => transport.InjectManyAsync((MqttApplicationMessage[])[Messages.One("a", "x"), null!]).AsTask());

        Assert.Equal(0, transport.GetStatistics().InjectedMessages);
    }

    private static string[] Texts(string name, int count) => [.. Enumerable.Range(1, count).Select(number => $"{name} {number}")];

    private static MqttApplicationMessage[] Numbered(string name, int count) => Array.ConvertAll(Texts(name, count), static text => Messages.One("topic", text));

    private MqttServerTransport Make() => new(_server.Server, new MqttServerTransportOptions { SlowSubscriberTimeout = Deadline.Time });
}
