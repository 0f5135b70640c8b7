using System.Collections.Immutable;
using BatchKit.MQTTnet.Tests.Support;
using BatchKit.Testing;
using BatchKit.Transports;
using MQTTnet;
using MQTTnet.Protocol;
using MQTTnet.Server;

namespace BatchKit.MQTTnet.Tests;

public sealed class MqttServerTransportTests : IAsyncLifetime
{
    private const int Burst = 20_000;

    private readonly ProducerId _producer = Some.Producer();
    private TestServer _server = null!;

    // Its defaults: 1000 pending messages a client, and the oldest is dropped in silence.
    public async ValueTask InitializeAsync() => _server = await TestServer.StartAsync();

    public ValueTask DisposeAsync() => _server.DisposeAsync();

    [Theory]
    [InlineData(MqttQualityOfServiceLevel.AtMostOnce)]
    [InlineData(MqttQualityOfServiceLevel.AtLeastOnce)]
    public async Task A_burst_far_above_what_the_server_keeps_loses_nothing_to_subscribers_that_read(MqttQualityOfServiceLevel qualityOfService)
    {
        using var transport = Make(patience: Deadline.Time);
        Subscriber[] subscribers = [await Subscriber.StartAsync(_server, "#", qualityOfService), await Subscriber.StartAsync(_server, "topic/+", qualityOfService)];

        await SendAsync(transport, MakeBurst());
        foreach (var subscriber in subscribers)
            await subscriber.WaitForMessagesAsync(Burst);

        Assert.All(subscribers, subscriber => Assert.Equal(Enumerable.Range(0, Burst).Select(number => $"{number}"), subscriber.Texts));
        Assert.Equal(new MqttServerTransportStatistics(Burst, DroppedMessages: 0, SlowSubscribers: 0), transport.GetStatistics());
    }

    [Theory]
    [InlineData(MqttPendingMessagesOverflowStrategy.DropOldestQueuedMessage)]
    [InlineData(MqttPendingMessagesOverflowStrategy.DropNewMessage)]
    public async Task A_subscriber_that_does_not_read_loses_messages_counted_and_the_others_none(MqttPendingMessagesOverflowStrategy strategy)
    {
        var time = new ManualTimeProvider();
        await using var server = await TestServer.StartAsync(options => options.WithPendingMessagesOverflowStrategy(strategy));
        using var transport = new MqttServerTransport(server.Server, timeProvider: time);
        var reader = await Subscriber.StartAsync(server);
        using var stuck = await StuckSubscriber.StartAsync(server);

        await DriveAsync(SendAsync(transport, MakeLargeBatches(Burst / 100)), time, server);
        await reader.WaitForMessagesAsync(Burst);

        var statistics = transport.GetStatistics();
        Assert.Equal((Burst, 1), (statistics.InjectedMessages, statistics.SlowSubscribers));
        Assert.InRange(statistics.DroppedMessages, 1, Burst);
    }

    [Fact]
    public async Task What_the_applications_interceptor_refuses_is_refused_and_not_counted()
    {
        _server.Server.InterceptingPublishAsync += occurrence =>
        {
            if (occurrence.ApplicationMessage.Topic == "forbidden")
                (occurrence.Response.ReasonCode, occurrence.ProcessPublish) = (MqttPubAckReasonCode.NotAuthorized, false);
            return Task.CompletedTask;
        };
        using var transport = Make(patience: Deadline.Time);

        var exception = await Assert.ThrowsAsync<BatchSendException>(
            () => SendAsync(transport, Some.Batch(OutputHandle.Named("forbidden"), _producer, 1, "x"), Some.Batch(Some.Group(), _producer, 2, "x")));

        ImmutableArray<BatchOutcome> expected = [BatchOutcome.Refused, BatchOutcome.Acknowledged];
        Assert.Equal(expected, exception.Outcomes);
        Assert.Contains(nameof(MqttPubAckReasonCode.NotAuthorized), exception.Message, StringComparison.Ordinal);
        Assert.Equal(1, transport.GetStatistics().InjectedMessages);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_message_for_which_the_applications_interceptor_throws_is_refused_alone(bool isCancellation)
    {
        _server.Server.InterceptingPublishAsync += occurrence => occurrence.ApplicationMessage.ConvertPayloadToString() != "2" ? Task.CompletedTask
            : isCancellation ? Task.FromCanceled(new CancellationToken(canceled: true)) : throw new FormatException("a defect");
        using var transport = Make(patience: Deadline.Time);
        var subscriber = await Subscriber.StartAsync(_server);

        var exception = await Assert.ThrowsAsync<BatchSendException>(
            () => SendAsync(transport, Some.Batch(Some.Group(), _producer, 1, "1", "2", "3"), Some.Batch(Some.Group(), _producer, 2, "4")));
        await subscriber.WaitForMessagesAsync(3);

        ImmutableArray<BatchOutcome> expected = [BatchOutcome.Refused, BatchOutcome.Acknowledged];
        Assert.Equal(expected, exception.Outcomes);
        Assert.Contains(isCancellation ? nameof(TaskCanceledException) : "FormatException: a defect", exception.Message, StringComparison.Ordinal);
        Assert.Equal(["1", "3", "4"], subscriber.Texts);
        Assert.Equal(3, transport.GetStatistics().InjectedMessages);
    }

    [Fact]
    public async Task An_interceptor_that_hangs_fails_its_message_and_holds_up_no_other()
    {
        var entered = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var released = new TaskCompletionSource();
        _server.Server.InterceptingPublishAsync += occurrence =>
        {
            entered.TrySetResult();
            return occurrence.ApplicationMessage.Topic == "hangs" ? released.Task : Task.CompletedTask;
        };
        var time = new ManualTimeProvider();
        using var transport = new MqttServerTransport(_server.Server, timeProvider: time);
        using var cancellation = new CancellationTokenSource();

        var sending = transport.SendAsync(new[] { Some.Batch(OutputHandle.Named("hangs"), _producer, 1, "x") }, cancellation.Token).AsTask();
        var injecting = transport.InjectManyAsync(new[] { new MqttApplicationMessageBuilder().WithTopic("hangs").Build() }, cancellation.Token).AsTask();
        await entered.Task.WithinDeadline();
        await cancellation.CancelAsync();
        await time.WaitForTimersAsync();
        time.Advance(TimeSpan.FromMilliseconds(200));

        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => sending.WithinDeadline());
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => injecting.WithinDeadline());
        await SendAsync(transport, Some.Batch(Some.Group(), _producer, 2, "x"));
        Assert.Equal(1, transport.GetStatistics().InjectedMessages);
        released.SetResult();
    }

    [Fact]
    public async Task An_interceptor_that_hangs_doubles_no_other_message_of_its_send()
    {
        var (entered, released) = (0, new TaskCompletionSource());
        _server.Server.InterceptingPublishAsync += occurrence =>
        {
            if (occurrence.ApplicationMessage.Topic != "hangs")
                return Task.CompletedTask;
            Interlocked.Increment(ref entered);
            return released.Task;
        };
        var (time, options) = (new ManualTimeProvider(), new OutputBufferOptions());
        using var transport = new MqttServerTransport(_server.Server, timeProvider: time);
        await using var buffer = new OutputBuffer(transport, options, timeProvider: time);
        var subscriber = await Subscriber.StartAsync(_server, "fine");

        using (buffer.BeginBufferingScope())
        {
            buffer.Write(OutputHandle.Named("fine"), "once");
            buffer.Write(OutputHandle.Named("hangs"), "x");
        }

        await Until.TrueAsync(() => Volatile.Read(ref entered) == 1);
        var timers = time.ArmedTimers;
        time.Advance(options.SendTimeout);
        await time.WaitForTimersAsync(timers + 1);
        // On the pool, where what waits for a timer continues before the next one fires.
        await Task.Run(() => time.Advance(TimeSpan.FromMilliseconds(500)));
        await Until.TrueAsync(() =>
        {
            time.Advance(TimeSpan.FromMilliseconds(100));
            return Volatile.Read(ref entered) == 2;
        });
        await _server.Server.InjectManyAsync(new[] { Messages.One("fine", "last") }).AsTask().WithinDeadline();
        await subscriber.WaitForMessagesAsync(2);
        released.SetResult();

        Assert.Equal(["once", "last"], subscriber.Texts);
    }

    [Fact]
    public async Task Twelve_slow_subscribers_are_waited_for_together()
    {
        var time = new ManualTimeProvider();
        using var transport = new MqttServerTransport(_server.Server, timeProvider: time);
        StuckSubscriber[] stuck = [.. await Task.WhenAll(Enumerable.Range(0, 12).Select(number => StuckSubscriber.StartAsync(_server, $"stuck {number}")))];

        // A few limits at most, and not twelve: the queues need not be full at the same moment, and the clock goes on while the server works.
        await DriveAsync(SendAsync(transport, MakeLargeBatches(100)), time, _server);
        var waited = time.GetElapsedTime(0);

        Assert.Equal(12, transport.GetStatistics().SlowSubscribers);
        Assert.InRange(waited, TimeSpan.FromSeconds(1), TimeSpan.FromSeconds(9));
        Array.ForEach(stuck, static subscriber => subscriber.Dispose());
    }

    [Fact]
    public async Task A_text_that_ends_connections_is_refused_and_its_neighbours_arrive()
    {
        using var transport = Make(patience: Deadline.Time);
        var subscriber = await Subscriber.StartAsync(_server);

        var exception = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(transport,
            Some.Batch(Some.Group(), _producer, 1, "one"),
            Some.Batch(OutputHandle.Named("a\uFFFE"), _producer, 2, "x"),
            MessageBatch.Create(Some.Group(), _producer, 3, Some.Message("three"), Some.Message("x", new MessageHeader { Properties = [new("name", "a\tb")] }), Some.Message("four"))));
        await subscriber.WaitForMessagesAsync(3);

        ImmutableArray<BatchOutcome> expected = [BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Refused];
        Assert.Equal(expected, exception.Outcomes);
        Assert.Equal(["one", "three", "four"], subscriber.Texts);
    }

    [Fact]
    public async Task A_slow_subscriber_that_reads_again_is_waited_for_again()
    {
        var time = new ManualTimeProvider();
        using var transport = new MqttServerTransport(_server.Server, timeProvider: time);
        using var stuck = await StuckSubscriber.StartAsync(_server);
        await DriveAsync(SendAsync(transport, MakeLargeBatches(100)), time, _server);
        var before = transport.GetStatistics().SlowSubscribers;

        await stuck.ReadUntilQuietAsync(_server);
        await SendAsync(transport, Some.Batch(OutputHandle.Named("topic"), _producer, 1000, "x"));

        Assert.Equal((1, 0), (before, transport.GetStatistics().SlowSubscribers));
    }

    [Fact]
    public async Task A_session_whose_client_is_away_is_not_waited_for()
    {
        await using var server = await TestServer.StartAsync(options => options.WithPersistentSessions());
        using var transport = new MqttServerTransport(server.Server, new MqttServerTransportOptions { SlowSubscriberTimeout = TimeSpan.FromMinutes(5) });
        var away = server.MakeClient();
        await server.ConnectAsync(away, configure: options => options.WithCleanStart(false).WithSessionExpiryInterval(1000));
        await new Subscriber(away).SubscribeAsync("#");
        await away.DisconnectAsync(new global::MQTTnet.MqttClientDisconnectOptions()).WithinDeadline();
        await Until.TrueAsync(async () => (await server.Server.GetClientsAsync()).Count == 0);

        await SendAsync(transport, [.. MakeBurst().Take(100)]);

        Assert.InRange(transport.GetStatistics().DroppedMessages, 1, Burst);
    }

    [Fact]
    public async Task A_bad_topic_is_refused_and_its_neighbours_arrive()
    {
        using var transport = Make(patience: Deadline.Time);
        var subscriber = await Subscriber.StartAsync(_server);

        var exception = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(transport,
            Some.Batch(Some.Group(), _producer, 1, "one"), Some.Batch(OutputHandle.Named("a/+"), _producer, 2, "x"), Some.Batch(Some.Connection(), _producer, 3, "x"), Some.Batch(Some.Group(), _producer, 4, "four")));
        await subscriber.WaitForMessagesAsync(2);

        ImmutableArray<BatchOutcome> expected = [BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Refused, BatchOutcome.Acknowledged];
        Assert.Equal(expected, exception.Outcomes);
        Assert.Equal(["one", "four"], subscriber.Texts);
    }

    [Fact]
    public async Task A_server_that_is_not_started_fails_the_send_as_a_whole()
    {
        await using var server = TestServer.Make();
        using var transport = new MqttServerTransport(server.Server);

        await Assert.ThrowsAsync<IOException>(() => SendAsync(transport, Some.Batch(Some.Group(), _producer, 1, "x")));
    }

    [Fact]
    public async Task A_send_cancelled_while_it_waits_for_room_acknowledges_what_is_in()
    {
        var time = new ManualTimeProvider();
        using var transport = new MqttServerTransport(_server.Server, timeProvider: time);
        using var stuck = await StuckSubscriber.StartAsync(_server);
        using var cancellation = new CancellationTokenSource();
        var batches = MakeLargeBatches(500);

        var sending = transport.SendAsync(batches, cancellation.Token).AsTask();
        await time.WaitForTimersAsync();
        await cancellation.CancelAsync();
        var exception = await Assert.ThrowsAsync<BatchSendException>(() => sending.WithinDeadline());

        Assert.Equal(0, transport.GetStatistics().DroppedMessages);
        var acknowledged = exception.Outcomes.TakeWhile(outcome => outcome == BatchOutcome.Acknowledged).Count();
        Assert.Equal(transport.GetStatistics().InjectedMessages / 100, acknowledged);
        Assert.All(exception.Outcomes.Skip(acknowledged), outcome => Assert.Equal(BatchOutcome.Unacknowledged, outcome));
    }

    [Fact]
    public async Task Retained_messages_wait_for_later_subscribers()
    {
        using var transport = new MqttServerTransport(_server.Server, new MqttServerTransportOptions { Retain = true });
        await SendAsync(transport, Some.Batch(OutputHandle.Named("kept/1"), _producer, 1, "old", "new"), Some.Batch(OutputHandle.Named("kept/2"), _producer, 2, "only"));

        var subscriber = await Subscriber.StartAsync(_server);
        await subscriber.WaitForMessagesAsync(2);

        Assert.Equal(["new", "only"], subscriber.Texts.Order());
    }

    private static Task SendAsync(MqttServerTransport transport, params MessageBatch[] batches) => transport.SendAsync(batches, CancellationToken.None).WithinDeadline();

    private MqttServerTransport Make(TimeSpan patience) => new(_server.Server, new MqttServerTransportOptions { SlowSubscriberTimeout = patience });

    // Time passes only while every subscriber but the stuck one has read all, so that a slow machine makes none of them a slow subscriber.
    private static async Task DriveAsync(Task sending, ManualTimeProvider time, TestServer server)
    {
        for (; !sending.IsCompleted; await Task.Delay(1))
        {
            if ((await server.Server.GetClientsAsync()).All(client => client.Id.StartsWith("stuck", StringComparison.Ordinal) || client.Session.PendingApplicationMessagesCount == 0))
                time.Advance(TimeSpan.FromMilliseconds(100));
        }

        await sending;
    }

    // A hundred messages each, all together more than two socket buffers take.
    private MessageBatch[] MakeLargeBatches(int count) => [.. Enumerable.Range(1, count)
        .Select(number => MessageBatch.Create(OutputHandle.Named("topic"), _producer, number, [.. Enumerable.Repeat(Some.Message(new string('x', 2000)), 100)]))];

    private MessageBatch[] MakeBurst() =>
        [.. Enumerable.Range(0, Burst / 50).Select(batch => Some.Batch(OutputHandle.Named($"topic/{batch % 20}"), _producer, batch + 1, [.. Enumerable.Range(batch * 50, 50).Select(number => $"{number}")]))];
}
