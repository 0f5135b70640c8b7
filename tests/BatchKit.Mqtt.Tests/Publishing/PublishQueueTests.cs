using System.Collections.Immutable;
using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Publishing;
using BatchKit.Transports;
using BatchKit.TransportSpecification.Support;

namespace BatchKit.Mqtt.Tests.Publishing;

/// <summary>What a queue writes, when its sends complete, and what it sends again.</summary>
public sealed class PublishQueueTests : IDisposable
{
    private readonly MqttOptions _options = new() { PublishWindow = 4 };
    private readonly ManualTimeProvider _time = new();
    private readonly ProducerId _producer = Some.Producer();
    private readonly PublishQueue _queue;
    private readonly SimulatedBroker _broker;

    public PublishQueueTests()
    {
        _queue = new PublishQueue(_options, _time);
        _broker = new SimulatedBroker(_queue);
    }

    public void Dispose() => _queue.Dispose();

    [Fact]
    public async Task A_send_completes_when_all_its_messages_are_acknowledged()
    {
        _broker.Connect();

        var sending = Send(Some.Batch(Topic("a"), _producer, 1, "1", "2"), Some.Batch(Topic("b"), _producer, 2, "3"));
        _broker.Take();
        _broker.Acknowledge();
        _broker.Acknowledge();
        var completedEarly = sending.IsCompleted;
        _broker.Acknowledge();
        await sending.WithinDeadline();

        Assert.False(completedEarly);
        Assert.Equal([("a", "1"), ("a", "2"), ("b", "3")], _broker.Arrived.Select(publish => (publish.Topic, publish.Text)));
    }

    [Fact]
    public async Task Qos_0_completes_when_it_is_written()
    {
        _options.QualityOfService = MqttQualityOfService.AtMostOnce;
        _broker.Connect();

        var sending = Send(Some.Batch(Topic("a"), _producer, 1, "1", "2"));
        _broker.Take();
        await sending.WithinDeadline();

        Assert.Empty(_broker.Unacknowledged);
        Assert.Equal(2, _queue.GetStatistics().AcknowledgedMessages);
    }

    [Theory]
    [InlineData(20, 4)]
    [InlineData(2, 2)]
    public async Task The_window_is_the_smaller_of_ours_and_the_brokers(int receiveMaximum, int window)
    {
        _broker.Connect(new ConnackPacket { ReceiveMaximum = receiveMaximum });

        var sending = Send(Some.Batch(Topic("a"), _producer, 1, Some.Lines(10)));
        _broker.Take();

        Assert.Equal(window, _broker.Unacknowledged.Count);
        Assert.False(_broker.Take());
        while (!sending.IsCompleted)
        {
            _broker.Acknowledge();
            _broker.Take();
            Assert.InRange(_broker.Unacknowledged.Count, 0, window);
            if (_broker.Unacknowledged.Count == 0)
                break;
        }

        await sending.WithinDeadline();
        Assert.Equal(Some.Lines(10), _broker.Texts);
    }

    [Fact]
    public async Task After_a_lost_connection_the_unacknowledged_come_first_marked_as_duplicates()
    {
        _broker.Connect();
        var sending = Send(Some.Batch(Topic("a"), _producer, 1, Some.Lines(6)));
        _broker.Take();
        _broker.Acknowledge();
        _broker.Disconnect();

        _broker.Connect();
        while (_broker.Take() || _broker.Unacknowledged.Count > 0)
            _broker.AcknowledgeAll();
        await sending.WithinDeadline();

        Assert.Equal([.. Some.Lines(4), .. Some.Lines(5, start: 1)], _broker.Texts);
        Assert.Equal([false, false, false, false, true, true, true, false, false], _broker.Arrived.Select(publish => publish.IsDuplicate));
        Assert.Equal(_broker.Arrived[1].PacketId, _broker.Arrived[4].PacketId);
        Assert.Equal(3, _queue.GetStatistics().ResentMessages);
    }

    [Fact]
    public async Task A_cancelled_send_says_what_was_acknowledged_and_goes_on_there_when_it_is_sent_again()
    {
        using var cancellation = new CancellationTokenSource();
        MessageBatch[] batches = [Some.Batch(Topic("a"), _producer, 1, "1"), Some.Batch(Topic("b"), _producer, 2, "2", "3", "4")];
        _broker.Connect();
        var sending = _queue.SendAsync(batches, cancellation.Token).AsTask();
        _broker.Take();
        _broker.Acknowledge();
        _broker.Acknowledge();

        await cancellation.CancelAsync();
        var failure = await Assert.ThrowsAsync<BatchSendException>(() => sending.WithinDeadline());
        var again = Send(batches[1]);
        var tookMore = _broker.Take();
        _broker.AcknowledgeAll();
        await again.WithinDeadline();

        ImmutableArray<BatchOutcome> expected = [BatchOutcome.Acknowledged, BatchOutcome.Unacknowledged];
        Assert.Equal(expected, failure.Outcomes);
        Assert.False(tookMore);
        Assert.Equal(["1", "2", "3", "4"], _broker.Texts);
    }

    [Fact]
    public async Task What_a_producer_does_not_bring_back_is_not_sent_again()
    {
        using var cancellation = new CancellationTokenSource();
        _broker.Connect();
        var sending = _queue.SendAsync(new[] { Some.Batch(Topic("a"), _producer, 1, "given up") }, cancellation.Token).AsTask();
        _broker.Take();
        await cancellation.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => sending.WithinDeadline());
        _broker.Disconnect();

        var next = Send(Some.Batch(Topic("a"), _producer, 2, "next"));
        _broker.Connect();
        _broker.Take();
        _broker.AcknowledgeAll();
        await next.WithinDeadline();

        Assert.Equal(["given up", "next"], _broker.Texts);
    }

    [Fact]
    public async Task A_call_without_messages_completes() => Assert.Equal(0, (await _queue.PublishManyAsync(default, CancellationToken.None)).Count);

    [Fact]
    public async Task Qos_0_that_was_being_written_when_the_connection_was_lost_is_counted_and_not_sent_again()
    {
        _options.QualityOfService = MqttQualityOfService.AtMostOnce;
        _broker.Connect();
        var sending = Send(Some.Batch(Topic("a"), _producer, 1, "1", "2"));

        _broker.Take(completes: false);
        await sending.WithinDeadline();
        _broker.Connect();

        Assert.False(_broker.Take());
        Assert.Equal(2, _queue.GetStatistics().LostMessages);
    }

    [Fact]
    public async Task Rules_set_what_a_message_leaves_open()
    {
        _options.TopicRules.Add(new MqttTopicRule { Filter = "fast/#", QualityOfService = MqttQualityOfService.AtMostOnce });
        using var queue = new PublishQueue(_options, _time);
        var broker = new SimulatedBroker(queue);
        broker.Connect();

        var publishing = queue.PublishManyAsync(new MqttMessage[] { new("fast/a", default), new("slow/a", default), new("fast/b", default) { QualityOfService = MqttQualityOfService.AtLeastOnce } }, CancellationToken.None).AsTask();
        broker.Take();

        Assert.Equal([true, false, false], broker.Arrived.Select(publish => publish.PacketId == 0));
        broker.AcknowledgeAll();
        await publishing.WithinDeadline();
    }

    [Fact]
    public async Task Topics_are_named_once_and_then_by_alias()
    {
        _options.MaxTopicAliases = 10;
        _broker.Connect(new ConnackPacket { TopicAliasMaximum = 1 });

        var sending = Send(Some.Batch(Topic("a"), _producer, 1, "1", "2"), Some.Batch(Topic("b"), _producer, 2, "3"));
        _broker.Take();
        _broker.AcknowledgeAll();
        await sending.WithinDeadline();

        Assert.Equal(["a", "", "b"], _broker.Arrived.Select(publish => publish.Topic));
    }

    private static OutputHandle Topic(string name) => OutputHandle.Named(name);

    private Task Send(params MessageBatch[] batches) => _queue.SendAsync(batches, CancellationToken.None).AsTask();
}
