using System.Collections.Concurrent;
using System.Collections.Immutable;
using BatchKit.MQTTnet.Tests.Support;
using BatchKit.Testing;
using BatchKit.Transports;
using MQTTnet;
using MQTTnet.Formatter;
using MQTTnet.Protocol;
using MQTTnet.Server;

namespace BatchKit.MQTTnet.Tests;

/// <summary>The rules of a transport, as far as they apply to topics, with MQTTnet's own client and server.</summary>
public sealed class ClientPublishTests : IAsyncLifetime
{
    private readonly ProducerId _producer = Some.Producer();
    private TestServer _server = null!;
    private IMqttClient _client = null!;
    private MqttClientTransport _transport = null!;

    public async ValueTask InitializeAsync()
    {
        _server = await TestServer.StartAsync(options => options.WithMaxPendingMessagesPerClient(1_000_000));
        _client = _server.MakeClient();
        _transport = new MqttClientTransport(_client);
        await _server.ConnectAsync(_client);
    }

    public ValueTask DisposeAsync()
    {
        _transport.Dispose();
        return _server.DisposeAsync();
    }

    [Fact]
    public async Task Messages_arrive_with_their_topic_bytes_properties_and_content_type()
    {
        var subscriber = await Subscriber.StartAsync(_server);
        var topic = Some.Group();

        await SendAsync(MessageBatch.Create(topic, _producer, 1, Some.Message("plain"), Some.Message("full", Some.FullHeader()), Some.Message("")));
        await subscriber.WaitForMessagesAsync(3);

        Assert.Equal(["plain", "full", ""], subscriber.Texts);
        Assert.All(subscriber.Messages, message => Assert.Equal(topic.Name, message.Topic));
        Assert.Equal(["first = one", "second = ", "first = again €"], subscriber.Messages[1].Properties);
        Assert.Equal(("application/json", "answers/äöü"), (subscriber.Messages[1].ContentType, subscriber.Messages[1].ResponseTopic));
        Assert.Equal([0, 1, 255], subscriber.Messages[1].CorrelationData);
        Assert.Empty(subscriber.Messages[2].Properties);
    }

    [Fact]
    public async Task Order_holds_for_each_topic_and_across_them()
    {
        var subscriber = await Subscriber.StartAsync(_server);
        var topics = Enumerable.Range(0, 8).Select(_ => Some.Group()).ToArray();

        var batches = Enumerable.Range(1, 2000).Select(number => Some.Batch(topics[number % 8], _producer, number, $"{number}", $"{number}b")).ToArray();
        await SendAsync(batches);
        await subscriber.WaitForMessagesAsync(4000);

        Assert.Equal([.. Enumerable.Range(1, 2000).SelectMany(number => new[] { $"{number}", $"{number}b" })], subscriber.Texts);
    }

    [Fact]
    public async Task A_bad_topic_among_a_thousand_is_refused_and_the_others_arrive()
    {
        var subscriber = await Subscriber.StartAsync(_server);
        var batches = Enumerable.Range(0, 1000).Select(number => Some.Batch(number == 500 ? OutputHandle.Named("rooms/#") : Some.Group(), _producer, number + 1, $"{number}")).ToArray();

        var exception = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(batches));
        await subscriber.WaitForMessagesAsync(999);

        Assert.Equal([500], exception.Outcomes.Select((outcome, index) => (outcome, index)).Where(pair => pair.outcome == BatchOutcome.Refused).Select(pair => pair.index));
        Assert.Equal(999, exception.Outcomes.Count(outcome => outcome == BatchOutcome.Acknowledged));
        Assert.Contains("'rooms/#'", exception.Message, StringComparison.Ordinal);
        Assert.Equal(Enumerable.Range(0, 1000).Where(number => number != 500).Select(number => $"{number}"), subscriber.Texts);
    }

    [Fact]
    public async Task A_topic_that_the_broker_does_not_allow_is_refused()
    {
        _server.Server.InterceptingPublishAsync += occurrence =>
        {
            if (occurrence.ApplicationMessage.Topic == "forbidden")
                (occurrence.Response.ReasonCode, occurrence.ProcessPublish) = (MqttPubAckReasonCode.NotAuthorized, false);
            return Task.CompletedTask;
        };

        var exception = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(Some.Batch(Some.Group(), _producer, 1, "x"), Some.Batch(OutputHandle.Named("forbidden"), _producer, 2, "x")));

        ImmutableArray<BatchOutcome> expected = [BatchOutcome.Acknowledged, BatchOutcome.Refused];
        Assert.Equal(expected, exception.Outcomes);
        Assert.Contains(nameof(MqttPubAckReasonCode.NotAuthorized), exception.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Control_messages_are_left_out()
    {
        var subscriber = await Subscriber.StartAsync(_server);
        var join = new BatchMessage(ControlMessage.JoinGroup("lobby").ToPayload(), MessageHeader.Control);

        await SendAsync(MessageBatch.Create(Some.Group(), _producer, 1, Some.Message("before"), join, Some.Message("after")));
        await subscriber.WaitForMessagesAsync(2);

        Assert.Equal(["before", "after"], subscriber.Texts);
    }

    [Fact]
    public async Task A_client_of_version_3_publishes_without_what_that_version_lacks()
    {
        var subscriber = await Subscriber.StartAsync(_server);
        var old = _server.MakeClient();
        using var transport = new MqttClientTransport(old);
        await _server.ConnectAsync(old, configure: options => options.WithProtocolVersion(MqttProtocolVersion.V311));

        await transport.SendAsync(new[] { MessageBatch.Create(Some.Group(), _producer, 1, Some.Message("text", Some.FullHeader())) }, CancellationToken.None).WithinDeadline();
        await subscriber.WaitForMessagesAsync(1);

        Assert.Equal(["text"], subscriber.Texts);
        Assert.Empty(subscriber.Messages[0].Properties);
    }

    [Fact]
    public async Task Quality_retain_and_expiry_are_the_options()
    {
        var client = _server.MakeClient();
        using var transport = new MqttClientTransport(client, new MqttClientTransportOptions { QualityOfService = MqttQualityOfServiceLevel.AtMostOnce, Retain = true, Expiry = TimeSpan.FromMinutes(1) });
        await _server.ConnectAsync(client);
        await transport.SendAsync(new[] { Some.Batch(OutputHandle.Named("kept"), _producer, 1, "x") }, CancellationToken.None).WithinDeadline();
        await Until.TrueAsync(async () => (await _server.Server.GetRetainedMessagesAsync()).Count > 0);

        var subscriber = await Subscriber.StartAsync(_server, "kept");
        await subscriber.WaitForMessagesAsync(1);

        Assert.True(subscriber.Messages[0].Retain);
        Assert.Equal(60u, subscriber.Messages[0].ExpirySeconds);
    }

    [Fact]
    public async Task What_a_stopped_broker_left_unacknowledged_arrives_when_it_is_sent_again()
    {
        var arrived = new HashSet<string>();
        var stopAt = new TaskCompletionSource();
        _server.Server.InterceptingPublishAsync += occurrence =>
        {
            lock (arrived)
            {
                arrived.Add(occurrence.ApplicationMessage.Topic);
                if (arrived.Count == 1500)
                    stopAt.TrySetResult();
            }

            return Task.CompletedTask;
        };
        var batches = Enumerable.Range(1, 5000).Select(number => Some.Batch(OutputHandle.Named($"t/{number}"), _producer, number, "x")).ToArray();

        var sending = SendAsync(batches);
        await stopAt.Task.WithinDeadline();
        await _server.Server.DisconnectClientAsync(_client.Options.ClientId, new MqttServerClientDisconnectOptions { ReasonCode = MqttDisconnectReasonCode.AdministrativeAction });
        var exception = await Assert.ThrowsAsync<BatchSendException>(() => sending);
        var acknowledged = batches.Where((_, index) => exception.Outcomes[index] == BatchOutcome.Acknowledged).ToArray();
        var rest = batches.Except(acknowledged).ToArray();
        lock (arrived)
            Assert.All(acknowledged, batch => Assert.Contains(batch.Handle.Name!, arrived));
        await _client.ConnectAsync(_client.Options).WithinDeadline();
        await SendAsync(rest);

        Assert.NotEmpty(acknowledged);
        Assert.Equal(5000, arrived.Count);
    }

    [Fact]
    public async Task Sends_on_a_new_connection_have_a_small_window_until_the_brokers_limit_is_known()
    {
        var (handlerEntered, handlerReleased, serverReleased) = (NewSignal(), NewSignal(), NewSignal());
        var arrived = new ConcurrentQueue<string>();
        _server.Server.InterceptingPublishAsync += async occurrence =>
        {
            await serverReleased.Task;
            arrived.Enqueue(occurrence.ApplicationMessage.Topic);
        };
        var client = _server.MakeClient();
        client.ConnectedAsync += _ =>
        {
            handlerEntered.SetResult();
            return handlerReleased.Task;
        };
        using var transport = new MqttClientTransport(client);
        var batches = Enumerable.Range(1, 1000).Select(number => Some.Batch(OutputHandle.Named($"t/{number}"), _producer, number, "x")).ToArray();

        var connecting = _server.ConnectAsync(client);
        await handlerEntered.Task.WithinDeadline();
        var sending = transport.SendAsync(batches, CancellationToken.None).WithinDeadline();
        await Until.TrueAsync(() => transport.InFlightMessages >= transport.Window);
        var before = (transport.Window, transport.InFlightMessages);
        handlerReleased.SetResult();
        serverReleased.SetResult();
        await connecting;
        await sending;

        Assert.Equal((20, 20), before);
        Assert.Equal(1000, transport.Window);
        Assert.Equal(batches.Select(batch => batch.Handle.Name), arrived);
    }

    private static TaskCompletionSource NewSignal() => new(TaskCreationOptions.RunContinuationsAsynchronously);

    private Task SendAsync(params MessageBatch[] batches) => _transport.SendAsync(batches, CancellationToken.None).WithinDeadline();
}
