using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.Transports;
using static BatchKit.IntegrationTests.Mqtt.MqttEnds;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>The rules of the transport specification that hold where a handle is a topic.</summary>
public sealed class MqttTopicTests(MosquittoFixture fixture)
{
    private readonly CollectingTransport _arrived = new();
    private readonly string _topic = Some.Name("topic");
    private readonly ProducerId _producer = Some.Producer();

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task Order_holds_for_each_topic(MqttVersion version)
    {
        OutputHandle[] topics = [Topic("a"), Topic("b/c"), Topic("ä €")];
        await using var way = await OpenAsync(version);

        for (var number = 1; number <= 300; number++)
            await way.Transport.SendAsync(new[] { Some.Batch(topics[number % 3], _producer, number, $"{number}") }, CancellationToken.None).WithinDeadline();
        await _arrived.WaitForMessagesAsync(300);

        for (var index = 0; index < topics.Length; index++)
            Assert.Equal([.. Enumerable.Range(1, 300).Where(number => number % 3 == index).Select(number => $"{number}")], _arrived.TextsFor(topics[index]));
    }

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task Thousands_of_batches_leave_in_one_send(MqttVersion version)
    {
        const int count = 4096;
        var topics = Enumerable.Range(0, 64).Select(index => Topic($"{index}")).ToArray();
        var batches = Enumerable.Range(1, count).Select(number => Some.Batch(topics[number % 64], _producer, number, $"{number}")).ToArray();
        await using var way = await OpenAsync(version);

        await way.Transport.SendAsync(batches, CancellationToken.None).WithinDeadline();
        await _arrived.WaitForMessagesAsync(count);

        for (var index = 0; index < topics.Length; index++)
            Assert.Equal([.. Enumerable.Range(1, count).Where(number => number % 64 == index).Select(number => $"{number}")], _arrived.TextsFor(topics[index]));
    }

    [Fact]
    public async Task A_thousand_messages_of_one_topic_arrive_in_order()
    {
        await using var way = await OpenAsync(MqttVersion.V5);

        await way.Transport.SendAsync(new[] { Some.Batch(Topic("a"), _producer, 1, Some.Lines(1000)) }, CancellationToken.None).WithinDeadline();
        await _arrived.WaitForMessagesAsync(1000);

        Assert.Equal(Some.Lines(1000), _arrived.TextsFor(Topic("a")));
    }

    [Fact]
    public async Task Content_type_and_properties_survive_on_MQTT_5()
    {
        var header = new MessageHeader { ContentType = "application/json", Properties = [new("first", "one"), new("second", ""), new("first", "again €")] };
        await using var way = await OpenAsync(MqttVersion.V5);

        await way.Transport.SendAsync(
            new[] { MessageBatch.Create(Topic("a"), _producer, 1, Some.Message("plain"), Some.Message("full", header), Some.Message("plain again")) }, CancellationToken.None);
        await _arrived.WaitForMessagesAsync(3);

        Assert.Null(_arrived.Messages[0].Header);
        Assert.Equivalent(header, _arrived.Messages[1].Header, strict: true);
        Assert.Null(_arrived.Messages[2].Header);
    }

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task Empty_and_large_messages_arrive_whole(MqttVersion version)
    {
        var large = Some.RandomBytes(1024 * 1024);
        await using var way = await OpenAsync(version);

        await way.Transport.SendAsync(
            new[] { MessageBatch.Create(Topic("a"), _producer, 1, Some.Message(""), new BatchMessage(large), Some.Message("behind it"), Some.Message("")) }, CancellationToken.None);
        await _arrived.WaitForMessagesAsync(4);

        Assert.Equal(["", "behind it", ""], _arrived.Texts.Where((_, index) => index != 1));
        Assert.Equal(large, _arrived.Messages[1].Payload);
    }

    [Fact]
    public async Task A_topic_that_the_next_hop_refuses_does_not_block_its_neighbours()
    {
        var refused = Topic("refused");
        await using var way = await OpenAsync(MqttVersion.V5);
        way.NextHop.RefuseWhere(batch => batch.Handle == refused);

        await way.Transport.SendAsync(
            new[] { Some.Batch(Topic("a"), _producer, 1, "before"), Some.Batch(refused, _producer, 2, "refused"), Some.Batch(Topic("a"), _producer, 3, "after") }, CancellationToken.None);
        await way.Transport.SendAsync(new[] { Some.Batch(Topic("a"), _producer, 4, "later") }, CancellationToken.None);
        await _arrived.WaitForMessagesAsync(3);

        Assert.Equal(["before", "after", "later"], _arrived.Texts);

        // The receiver counts a refusal when the delivery has ended, which is after its other messages have arrived.
        await Until.TrueAsync(() => way.Receiver.GetStatistics().RefusedMessages == 1);
    }

    [Fact]
    public async Task A_topic_that_must_not_be_published_to_is_refused_and_its_neighbours_arrive()
    {
        await using var way = await OpenAsync(MqttVersion.V5);

        var exception = await Assert.ThrowsAsync<BatchSendException>(() => way.Transport.SendAsync(
            new[] { Some.Batch(Topic("a"), _producer, 1, "one"), Some.Batch(Topic("b/#"), _producer, 2, "lost"), Some.Batch(Topic("a"), _producer, 3, "three") },
            CancellationToken.None).WithinDeadline());
        await _arrived.WaitForMessagesAsync(2);

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Acknowledged], exception.Outcomes);
        Assert.Contains("wildcard", exception.Message, StringComparison.Ordinal);
        Assert.Equal(["one", "three"], _arrived.Texts);
    }

    [Fact]
    public async Task A_failing_next_hop_is_tried_again_in_place_without_loss_or_repeat()
    {
        await using var way = await OpenAsync(MqttVersion.V5);
        way.NextHop.Fail(sends: 3);

        for (var number = 1; number <= 20; number++)
            await way.Transport.SendAsync(new[] { Some.Batch(Topic("a"), _producer, number, $"{number}") }, CancellationToken.None).WithinDeadline();
        await _arrived.WaitForMessagesAsync(20);

        Assert.Equal([.. Enumerable.Range(1, 20).Select(number => $"{number}")], _arrived.Texts);
    }

    [Fact]
    public async Task A_cancelled_token_throws_and_sends_nothing()
    {
        MessageBatch[] cancelled = [Some.Batch(Topic("a"), _producer, 1, "never")];
        await using var way = await OpenAsync(MqttVersion.V5);

        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => way.Transport.SendAsync(cancelled, new CancellationToken(canceled: true)).WithinDeadline());
        await way.Transport.SendAsync(new[] { Some.Batch(Topic("a"), _producer, 2, "marker") }, CancellationToken.None);
        await _arrived.WaitForMessagesAsync(1);

        Assert.Equal(["marker"], _arrived.Texts);
    }

    [Fact]
    public async Task A_disposed_transport_throws()
    {
        MessageBatch[] batches = [Some.Batch(Topic("a"), _producer, 1, "never")];
        await using var way = await OpenAsync(MqttVersion.V5);

        await way.Transport.DisposeAsync();

        await Assert.ThrowsAsync<ObjectDisposedException>(() => way.Transport.SendAsync(batches, CancellationToken.None).WithinDeadline());
    }

    private OutputHandle Topic(string below) => OutputHandle.Named($"{_topic}/{below}");

    private async Task<MqttPair> OpenAsync(MqttVersion version)
    {
        var options = MqttSome.Below(await fixture.GetAsync(), _topic, options => options.Version = version);
        return await MqttPair.OpenAsync(options, _arrived);
    }
}

/// <summary>A transport, the broker and a receiver with the same settings.</summary>
internal sealed class MqttPair(MqttTransport transport, MqttReceiver receiver, ScriptedTransport nextHop) : IAsyncDisposable
{
    public MqttTransport Transport { get; } = transport;

    public MqttReceiver Receiver { get; } = receiver;

    /// <summary>What the receiver hands batches to, which may be made to fail.</summary>
    public ScriptedTransport NextHop { get; } = nextHop;

    public static async Task<MqttPair> OpenAsync(MqttOptions options, CollectingTransport arrived)
    {
        var nextHop = new ScriptedTransport(arrived);
        return new MqttPair(new MqttTransport(options), await MqttEnds.StartAsync(options, nextHop), nextHop);
    }

    public async ValueTask DisposeAsync()
    {
        await Transport.DisposeAsync();
        await Receiver.DisposeAsync();
    }
}
