using BatchKit.Mqtt.Publishing;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Tests.Publishing;

public sealed class EnvelopePublisherTests
{
    private readonly ProducerId _producer = Some.Producer();

    [Fact]
    public async Task Connections_frames_go_to_their_nodes_topic_and_groups_to_all()
    {
        var publisher = new ScriptedPublisher();

        await SendAsync(publisher, Batch(1, 1), Some.Batch(Some.Group(), _producer, 2, "all"), Batch(3, 3));

        Assert.Equal(["game/node/1", "game/all", "game/node/3"], publisher.Published.Select(message => message.Topic));
        Assert.All(publisher.Published, message => Assert.Equal((MqttQualityOfService.AtLeastOnce, false, TimeSpan.Zero), (message.QualityOfService, message.Retain, message.Expiry)));
        using var frame = FrameReader.Read(publisher.Published[0].Payload);
        Assert.Equal((_producer, 1L), (frame.Batches.Span[0].Producer, frame.Batches.Span[0].Number));
    }

    [Fact]
    public async Task A_frame_that_nobody_subscribes_to_is_a_success()
    {
        await SendAsync(new ScriptedPublisher(new MqttPublishResult(MqttReasonCode.NoMatchingSubscribers)), Batch(1, 1));
    }

    [Fact]
    public async Task A_frame_that_the_broker_does_not_allow_is_refused_and_its_neighbour_is_acknowledged()
    {
        var publisher = new ScriptedPublisher(new MqttPublishResult(MqttReasonCode.NotAuthorized, "Not for you."), default);

        var exception = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(publisher, Batch(1, 1), Batch(2, 2)));

        Assert.Equal([BatchOutcome.Refused, BatchOutcome.Acknowledged], exception.Outcomes);
        Assert.Equal("The broker did not accept everything. Not for you.", exception.Message);
    }

    [Fact]
    public async Task A_frame_that_the_broker_has_no_quota_for_is_sent_again()
    {
        var publisher = new ScriptedPublisher(new MqttPublishResult(MqttReasonCode.QuotaExceeded), default);

        var exception = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(publisher, Batch(1, 1), Batch(2, 2)));

        Assert.Equal([BatchOutcome.Busy, BatchOutcome.Acknowledged], exception.Outcomes);
        Assert.Contains("QuotaExceeded", exception.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(MqttReasonCode.QuotaExceeded)]
    [InlineData(MqttReasonCode.PacketTooLarge)]
    public async Task A_frame_that_is_to_be_sent_again_is_overtaken_by_none_for_its_receivers(MqttReasonCode answer)
    {
        var publisher = new ScriptedPublisher(new MqttPublishResult(answer), default);

        var exception = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(publisher, Batch(1, 1), Batch(1, 2), Some.Batch(Some.Group(), _producer, 3, "all"), Batch(2, 4)));

        Assert.Equal([BatchOutcome.Busy, BatchOutcome.Busy, BatchOutcome.Busy, BatchOutcome.Busy], exception.Outcomes);
        Assert.Equal(["game/node/1"], publisher.Published.Select(message => message.Topic));
    }

    [Fact]
    public async Task A_frame_too_large_for_the_broker_is_refused_only_when_it_has_one_batch()
    {
        var publisher = new ScriptedPublisher(new MqttPublishResult(MqttReasonCode.PacketTooLarge), new MqttPublishResult(MqttReasonCode.PacketTooLarge));

        var exception = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(publisher, Batch(1, 1), Batch(2, 2), Batch(1, 3)));

        Assert.Equal([BatchOutcome.Busy, BatchOutcome.Refused, BatchOutcome.Busy], exception.Outcomes);
    }

    [Fact]
    public async Task Frames_keep_to_the_brokers_limit_once_it_is_known()
    {
        const int brokersLimit = 2000;
        var publisher = new ScriptedPublisher();
        var batches = Enumerable.Range(1, 10).Select(number => Some.Batch(Some.Connection(1), _producer, number, new string('x', 900))).ToArray();

        await new EnvelopePublisher(publisher, Options(), "The broker", () => brokersLimit).SendAsync(batches, CancellationToken.None);

        Assert.Equal(5, publisher.Published.Count);
        Assert.All(publisher.Published, message => Assert.True(message.Payload.Length < brokersLimit));
    }

    private static Task SendAsync(ScriptedPublisher publisher, params MessageBatch[] batches) =>
        new EnvelopePublisher(publisher, Options(), "The broker", () => uint.MaxValue).SendAsync(batches, CancellationToken.None).AsTask();

    private static MqttOptions Options() => new() { EnvelopePrefix = "game" };

    private MessageBatch Batch(int node, long number) => Some.Batch(Some.Connection(node), _producer, number, "x");
}

/// <summary>Keeps what it is given and answers as told, in that order.</summary>
internal sealed class ScriptedPublisher(params MqttPublishResult[] results) : IMqttPublisher
{
    public List<(string Topic, byte[] Payload, MqttQualityOfService? QualityOfService, bool? Retain, TimeSpan? Expiry)> Published { get; } = [];

    public ValueTask<MqttPublishReport> PublishManyAsync(ReadOnlyMemory<MqttMessage> messages, CancellationToken cancellationToken = default)
    {
        var answers = results.Length == 0 ? new MqttPublishResult[messages.Length] : results[Published.Count..][..messages.Length];
        foreach (var message in messages.Span)
            Published.Add((message.Topic, message.Payload.ToArray(), message.QualityOfService, message.Retain, message.Expiry));
        return ValueTask.FromResult(MqttPublishReport.Create(answers));
    }
}
