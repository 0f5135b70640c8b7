using System.Collections.Immutable;
using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Publishing;
using BatchKit.Transports;
using BatchKit.TransportSpecification.Support;

namespace BatchKit.Mqtt.Tests.Publishing;

/// <summary>What a queue refuses, and how its sends fail.</summary>
public sealed class PublishFailureTests : IDisposable
{
    private readonly MqttOptions _options = new() { PublishWindow = 4 };
    private readonly ManualTimeProvider _time = new();
    private readonly ProducerId _producer = Some.Producer();
    private readonly PublishQueue _queue;
    private readonly SimulatedBroker _broker;

    public PublishFailureTests()
    {
        _queue = new PublishQueue(_options, _time);
        _broker = new SimulatedBroker(_queue);
    }

    public void Dispose() => _queue.Dispose();

    [Fact]
    public async Task A_refused_connection_fails_what_waits()
    {
        var sending = Send(Some.Batch(Topic("a"), _producer, 1, "1"));

        _queue.ConnectFailed(new MqttConnectException("It said no.", MqttReasonCode.NotAuthorized) { IsRefusal = true });

        Assert.Equal("It said no.", (await Assert.ThrowsAsync<MqttConnectException>(() => sending.WithinDeadline())).Message);
    }

    [Fact]
    public async Task A_broker_that_is_down_is_waited_for_and_named_when_the_time_is_over()
    {
        var publishing = _queue.PublishManyAsync(new MqttMessage[] { new("a", default) }, CancellationToken.None).AsTask();

        _queue.ConnectFailed(new MqttConnectException("Nobody is there."));
        _time.Advance(_options.PublishTimeout - TimeSpan.FromSeconds(1));
        var failedEarly = publishing.IsCompleted;
        _time.Advance(TimeSpan.FromSeconds(1));

        Assert.False(failedEarly);
        Assert.Equal("Nobody is there.", (await Assert.ThrowsAsync<IOException>(() => publishing.WithinDeadline())).Message);
    }

    [Fact]
    public async Task A_broker_that_does_not_acknowledge_is_named_when_the_time_is_over()
    {
        _broker.Connect();
        var publishing = _queue.PublishManyAsync(new MqttMessage[] { new("a", default) }, CancellationToken.None).AsTask();
        _broker.Take();

        _time.Advance(_options.PublishTimeout);

        var failure = await Assert.ThrowsAsync<TimeoutException>(() => publishing.WithinDeadline());
        Assert.Contains(nameof(MqttOptions.PublishTimeout), failure.Message, StringComparison.Ordinal);
        _broker.AcknowledgeAll();
    }

    [Fact]
    public async Task A_closed_queue_fails_what_waits_and_what_comes()
    {
        var sending = Send(Some.Batch(Topic("a"), _producer, 1, "1"));

        _queue.Dispose();

        await Assert.ThrowsAsync<ObjectDisposedException>(() => sending.WithinDeadline());
        await Assert.ThrowsAsync<ObjectDisposedException>(() => Send(Some.Batch(Topic("a"), _producer, 2, "2")));
    }

    [Fact]
    public async Task A_bad_topic_is_refused_and_its_neighbours_are_published()
    {
        _broker.Connect();

        var sending = Send(Some.Batch(Topic("a"), _producer, 1, "1"), Some.Batch(Topic("a/#"), _producer, 2, "2"), Some.Batch(Some.Connection(), _producer, 3, "3"), Some.Batch(Topic("b"), _producer, 4, "4"));
        _broker.Take();
        _broker.AcknowledgeAll();
        var failure = await Assert.ThrowsAsync<BatchSendException>(() => sending.WithinDeadline());

        ImmutableArray<BatchOutcome> expected = [BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Refused, BatchOutcome.Acknowledged];
        Assert.Equal(expected, failure.Outcomes);
        Assert.Contains("'a/#' holds a wildcard", failure.Message, StringComparison.Ordinal);
        Assert.Contains(nameof(MqttOptions.EnvelopePrefix), failure.Message, StringComparison.Ordinal);
        Assert.Equal(["1", "4"], _broker.Texts);
    }

    [Fact]
    public async Task Each_message_of_a_call_has_its_result()
    {
        MqttMessage[] messages =
        [
            new("a", Some.Bytes("good")),
            new("a", Some.Bytes("nobody listens")),
            new("a", Some.Bytes("not allowed")),
            new("b\nc", Some.Bytes("bad topic")),
            new("a", Some.Bytes("twice")) { QualityOfService = MqttQualityOfService.ExactlyOnce },
            new("a", new byte[2000]),
            new("a", Some.Bytes("half")) { ContentType = "\uD800" },
        ];
        _broker.Connect(new ConnackPacket { MaxPacketBytes = 1000 });

        var publishing = _queue.PublishManyAsync(messages, CancellationToken.None).AsTask();
        _broker.Take();
        _broker.Acknowledge();
        _broker.Acknowledge(0, MqttReasonCode.NoMatchingSubscribers);
        _broker.Acknowledge(0, MqttReasonCode.NotAuthorized);
        var report = await publishing.WithinDeadline();

        Assert.False(report.IsSuccess);
        Assert.Equal(
            [MqttReasonCode.Success, MqttReasonCode.NoMatchingSubscribers, MqttReasonCode.NotAuthorized, MqttReasonCode.TopicNameInvalid, MqttReasonCode.QoSNotSupported, MqttReasonCode.PacketTooLarge, MqttReasonCode.MalformedPacket],
            Enumerable.Range(0, report.Count).Select(index => report[index].ReasonCode));
        Assert.Equal([true, true, false, false, false, false, false], Enumerable.Range(0, report.Count).Select(index => report[index].IsSuccess));
        Assert.Contains("1000", report[5].Reason, StringComparison.Ordinal);
        Assert.Equal(["good", "nobody listens", "not allowed"], _broker.Texts);
    }

    [Fact]
    public async Task A_message_for_which_the_broker_ends_the_connection_is_found_and_refused()
    {
        var sending = Send(Some.Batch(Topic("a"), _producer, 1, "1", "2"), Some.Batch(Topic("bad"), _producer, 2, "bad"), Some.Batch(Topic("b"), _producer, 3, "3", "4"));
        var connects = 0;

        for (; _queue.GetStatistics() is var done && done.AcknowledgedMessages + done.RefusedMessages < 5 && connects < 10; connects++)
        {
            _broker.Connect();
            while (_broker.Take() && !_broker.Arrived.Exists(publish => publish.Topic == "bad" && _broker.Unacknowledged.Contains(publish.PacketId)))
                _broker.AcknowledgeAll();
            _broker.Disconnect(_broker.Unacknowledged.Count > 0 ? MqttReasonCode.ProtocolError : null);
        }

        var failure = await Assert.ThrowsAsync<BatchSendException>(() => sending.WithinDeadline());
        ImmutableArray<BatchOutcome> expected = [BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Acknowledged];
        Assert.Equal(expected, failure.Outcomes);
        Assert.Contains("ended the connection for it: ProtocolError (0x82)", failure.Message, StringComparison.Ordinal);
        Assert.Equal(3, connects);
    }

    [Theory]
    [InlineData(null)]
    [InlineData(MqttReasonCode.ServerShuttingDown)]
    [InlineData(MqttReasonCode.SessionTakenOver)]
    public async Task A_connection_that_ends_for_another_reason_blames_no_message(MqttReasonCode? notice)
    {
        var sending = Send(Some.Batch(Topic("a"), _producer, 1, "1", "2"));

        for (var connects = 0; connects < 10; connects++)
        {
            _broker.Connect();
            _broker.Take();
            _broker.Disconnect(notice);
        }

        _broker.Connect();
        _broker.Take();
        Assert.Equal(2, _broker.Unacknowledged.Count);
        _broker.AcknowledgeAll();
        await sending.WithinDeadline();
    }

    private static OutputHandle Topic(string name) => OutputHandle.Named(name);

    private Task Send(params MessageBatch[] batches) => _queue.SendAsync(batches, CancellationToken.None).AsTask();
}
