using System.Collections.Immutable;
using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Publishing;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Tests.Publishing;

/// <summary>What a queue refuses, and how its sends fail.</summary>
public sealed class PublishFailureTests : PublishQueueTest
{
    /// <summary>Versions and ends of a connection that don't say whether a message was the cause.</summary>
    public static TheoryData<MqttVersion, MqttReasonCode?> UnclearEnds => new()
    {
        { MqttVersion.V311, null },
        { MqttVersion.V5, null },
        { MqttVersion.V5, MqttReasonCode.Success },
        { MqttVersion.V5, MqttReasonCode.UnspecifiedError },
        { MqttVersion.V5, MqttReasonCode.NotAuthorized },
    };

    [Fact]
    public async Task A_refused_connection_fails_what_waits()
    {
        var sending = Send(Some.Batch(Topic("a"), Producer, 1, "1"));

        Queue.ConnectFailed(new MqttConnectException("It said no.", MqttReasonCode.NotAuthorized) { IsRefusal = true });

        Assert.Equal("It said no.", (await Assert.ThrowsAsync<MqttConnectException>(() => sending.WithinDeadline())).Message);
    }

    [Fact]
    public async Task A_broker_that_is_down_is_waited_for_and_named_when_the_time_is_over()
    {
        var publishing = Queue.PublishManyAsync(new MqttMessage[] { new("a", default) }, CancellationToken.None).AsTask();

        Queue.ConnectFailed(new MqttConnectException("Nobody is there."));
        Time.Advance(Options.PublishTimeout - TimeSpan.FromSeconds(1));
        var failedEarly = publishing.IsCompleted;
        Time.Advance(TimeSpan.FromSeconds(1));

        Assert.False(failedEarly);
        Assert.Equal("Nobody is there.", (await Assert.ThrowsAsync<IOException>(() => publishing.WithinDeadline())).Message);
    }

    [Fact]
    public async Task A_broker_that_does_not_acknowledge_is_named_when_the_time_is_over()
    {
        Broker.Connect();
        var publishing = Queue.PublishManyAsync(new MqttMessage[] { new("a", default) }, CancellationToken.None).AsTask();
        Broker.Take();

        Time.Advance(Options.PublishTimeout);

        var failure = await Assert.ThrowsAsync<TimeoutException>(() => publishing.WithinDeadline());
        Assert.Contains(nameof(MqttOptions.PublishTimeout), failure.Message, StringComparison.Ordinal);
        Broker.AcknowledgeAll();
    }

    [Fact]
    public async Task A_closed_queue_fails_what_waits_and_what_comes()
    {
        var sending = Send(Some.Batch(Topic("a"), Producer, 1, "1"));

        Queue.Dispose();

        await Assert.ThrowsAsync<ObjectDisposedException>(() => sending.WithinDeadline());
        await Assert.ThrowsAsync<ObjectDisposedException>(() => Send(Some.Batch(Topic("a"), Producer, 2, "2")));
    }

    [Fact]
    public async Task A_bad_topic_is_refused_and_its_neighbours_are_published()
    {
        Broker.Connect();

        var sending = Send(Some.Batch(Topic("a"), Producer, 1, "1"), Some.Batch(Topic("a/#"), Producer, 2, "2"), Some.Batch(Some.Connection(), Producer, 3, "3"), Some.Batch(Topic("b"), Producer, 4, "4"));
        Broker.Take();
        Broker.AcknowledgeAll();
        var failure = await Assert.ThrowsAsync<BatchSendException>(() => sending.WithinDeadline());

        ImmutableArray<BatchOutcome> expected = [BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Refused, BatchOutcome.Acknowledged];
        Assert.Equal(expected, failure.Outcomes);
        Assert.Contains("'a/#' holds a wildcard", failure.Message, StringComparison.Ordinal);
        Assert.Contains(nameof(MqttOptions.EnvelopePrefix), failure.Message, StringComparison.Ordinal);
        Assert.Equal(["1", "4"], Broker.Texts);
    }

    [Fact]
    public async Task A_send_that_has_failed_says_so_before_it_is_awaited()
    {
        Broker.Connect();

        var sending = Queue.SendAsync(new[] { Some.Batch(Topic("a/#"), Producer, 1, "1") }, CancellationToken.None);
        Broker.Take();

        Assert.True(sending.IsFaulted);
        await Assert.ThrowsAsync<BatchSendException>(async () => await sending);
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
        Broker.Connect(new ConnackPacket { MaxPacketBytes = 1000 });

        var publishing = Queue.PublishManyAsync(messages, CancellationToken.None).AsTask();
        Broker.Take();
        Broker.Acknowledge();
        Broker.Acknowledge(0, MqttReasonCode.NoMatchingSubscribers);
        Broker.Acknowledge(0, MqttReasonCode.NotAuthorized);
        var report = await publishing.WithinDeadline();

        Assert.False(report.IsSuccess);
        Assert.Equal(
            [MqttReasonCode.Success, MqttReasonCode.NoMatchingSubscribers, MqttReasonCode.NotAuthorized, MqttReasonCode.TopicNameInvalid, MqttReasonCode.QoSNotSupported, MqttReasonCode.PacketTooLarge, MqttReasonCode.MalformedPacket],
            Enumerable.Range(0, report.Count).Select(index => report[index].ReasonCode));
        Assert.Equal([true, true, false, false, false, false, false], Enumerable.Range(0, report.Count).Select(index => report[index].IsSuccess));
        Assert.Contains("1000", report[5].Reason, StringComparison.Ordinal);
        Assert.Equal(["good", "nobody listens", "not allowed"], Broker.Texts);
    }

    [Fact]
    public async Task A_message_for_which_the_broker_ends_the_connection_is_found_and_refused()
    {
        var sending = Send(Some.Batch(Topic("a"), Producer, 1, "1", "2"), Some.Batch(Topic("bad"), Producer, 2, "bad"), Some.Batch(Topic("b"), Producer, 3, "3", "4"));
        var connects = 0;

        for (; Queue.GetStatistics() is var done && done.AcknowledgedMessages + done.RefusedMessages < 5 && connects < 10; connects++)
        {
            Broker.Connect();
            while (Broker.Take() && !Broker.Arrived.Exists(publish => publish.Topic == "bad" && Broker.Unacknowledged.Contains(publish.PacketId)))
                Broker.AcknowledgeAll();
            Broker.Disconnect(Broker.Unacknowledged.Count > 0 ? MqttReasonCode.ProtocolError : null);
        }

        var failure = await Assert.ThrowsAsync<BatchSendException>(() => sending.WithinDeadline());
        ImmutableArray<BatchOutcome> expected = [BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Acknowledged];
        Assert.Equal(expected, failure.Outcomes);
        Assert.Contains("ended the connection because of the message: ProtocolError (0x82)", failure.Message, StringComparison.Ordinal);
        Assert.Equal(3, connects);
    }

    [Theory]
    [InlineData(MqttReasonCode.QuotaExceeded, true)]
    [InlineData(MqttReasonCode.PacketIdentifierInUse, true)]
    [InlineData(MqttReasonCode.UnspecifiedError, true)]
    [InlineData(MqttReasonCode.ImplementationSpecificError, true)]
    [InlineData(MqttReasonCode.NotAuthorized, false)]
    [InlineData(MqttReasonCode.TopicNameInvalid, false)]
    [InlineData(MqttReasonCode.PayloadFormatInvalid, false)]
    public async Task A_message_that_is_refused_for_now_is_sent_again_alone_and_one_that_is_refused_for_good_is_not(MqttReasonCode reasonCode, bool isTransient)
    {
        MessageBatch[] batches = [Some.Batch(Topic("a"), Producer, 1, "1", "2", "3"), Some.Batch(Topic("b"), Producer, 2, "4")];
        Broker.Connect();
        var sending = Send(batches);
        Broker.Take();
        Broker.Acknowledge(1, reasonCode);
        Broker.AcknowledgeAll();

        var failure = await Assert.ThrowsAsync<BatchSendException>(() => sending.WithinDeadline());
        Assert.Equal([isTransient ? BatchOutcome.Unacknowledged : BatchOutcome.Refused, BatchOutcome.Acknowledged], failure.Outcomes);
        Assert.Contains($"{reasonCode}", failure.Message, StringComparison.Ordinal);
        if (!isTransient)
            return;

        for (var attempt = 0; attempt < 2; attempt++)
        {
            Broker.Arrived.Clear();
            var again = Send(batches[0]);
            Broker.Take();
            Assert.Equal([("2", false)], Broker.Arrived.Select(static publish => (publish.Text, publish.IsDuplicate)));
            Broker.Acknowledge(0, attempt == 0 ? reasonCode : MqttReasonCode.Success);
            if (attempt == 0)
                Assert.Contains($"{reasonCode}", (await Assert.ThrowsAsync<IOException>(() => again.WithinDeadline())).Message, StringComparison.Ordinal);
            else
                await again.WithinDeadline();
        }

        Assert.Equal((4L, 0L), (Queue.GetStatistics().AcknowledgedMessages, Queue.GetStatistics().RefusedMessages));
    }

    [Fact]
    public async Task A_message_that_was_isolated_for_a_clear_reason_is_refused_for_unclear_ones_too()
    {
        var sending = Send(Some.Batch(Topic("bad"), Producer, 1, "bad"), Some.Batch(Topic("a"), Producer, 2, "1"));

        for (var connects = 0; connects < 10 && !sending.IsCompleted; connects++)
        {
            Broker.Connect();
            Serve(Broker, isClosing: static publish => publish.Topic == "bad");
            if (!sending.IsCompleted)
                Broker.Disconnect(connects == 0 ? MqttReasonCode.ProtocolError : null);
        }

        var failure = await Assert.ThrowsAsync<BatchSendException>(() => sending.WithinDeadline());
        ImmutableArray<BatchOutcome> expected = [BatchOutcome.Refused, BatchOutcome.Acknowledged];
        Assert.Equal(expected, failure.Outcomes);
    }

    [Theory]
    [InlineData(MqttReasonCode.ServerShuttingDown)]
    [InlineData(MqttReasonCode.SessionTakenOver)]
    public async Task A_connection_that_ends_for_another_reason_blames_no_message(MqttReasonCode? notice)
    {
        var sending = Send(Some.Batch(Topic("a"), Producer, 1, "1", "2"));

        for (var connects = 0; connects < 10; connects++)
        {
            Broker.Connect();
            Broker.Take();
            Broker.Disconnect(notice);
        }

        Broker.Connect();
        Broker.Take();
        Assert.Equal(2, Broker.Unacknowledged.Count);
        Broker.AcknowledgeAll();
        await sending.WithinDeadline();
    }

    [Fact]
    public async Task A_message_is_not_blamed_for_another_of_QoS_0_that_ends_the_connection()
    {
        var bad = new MqttMessage("bad", Some.Bytes("bad")) { QualityOfService = MqttQualityOfService.AtMostOnce };
        var call = Queue.PublishManyAsync(new[] { new MqttMessage("good", Some.Bytes("good")), bad }, CancellationToken.None).AsTask();

        for (var connection = 0; connection < 3; connection++)
        {
            Broker.Connect();
            Broker.Arrived.Clear();
            while (Broker.Take() && !Broker.Arrived.Exists(static publish => publish.Topic == "bad"))
                Broker.AcknowledgeAll();
            Broker.Disconnect(MqttReasonCode.MalformedPacket);
            _ = Queue.PublishManyAsync(new[] { bad }, CancellationToken.None).AsTask();
        }

        Assert.True((await call.WithinDeadline())[0].IsSuccess);
    }

    [Theory]
    [MemberData(nameof(UnclearEnds))]
    public async Task A_message_for_which_the_broker_closes_each_connection_without_a_clear_reason_is_found_and_refused(MqttVersion version, MqttReasonCode? notice)
    {
        var broker = new SimulatedBroker(Queue, version);
        var sending = Send(Some.Batch(Topic("a"), Producer, 1, "1", "2"), Some.Batch(Topic("bad"), Producer, 2, "bad"), Some.Batch(Topic("b"), Producer, 3, "3", "4"));

        for (var connects = 0; connects < 20 && !sending.IsCompleted; connects++)
        {
            broker.Connect();
            Serve(broker, isClosing: publish => publish.Topic == "bad");
            if (!sending.IsCompleted)
                broker.Disconnect(notice);
        }

        var failure = await Assert.ThrowsAsync<BatchSendException>(() => sending.WithinDeadline());
        ImmutableArray<BatchOutcome> expected = [BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Acknowledged];
        Assert.Equal(expected, failure.Outcomes);
        Assert.Contains($"closed 3 consecutive connections {(notice is { } code ? $"({code}, 0x{(int)code:X2})" : "without a reason")}", failure.Message, StringComparison.Ordinal);
    }

    [Theory]
    [MemberData(nameof(UnclearEnds))]
    public async Task A_broker_that_closes_every_connection_blames_no_message(MqttVersion version, MqttReasonCode? notice)
    {
        var broker = new SimulatedBroker(Queue, version);
        var sending = Send(Some.Batch(Topic("a"), Producer, 1, "1", "2"));

        for (var connects = 0; connects < 20; connects++)
        {
            broker.Connect();
            broker.Take();
            broker.Disconnect(notice);
        }

        broker.Connect();
        Serve(broker, isClosing: static _ => false);
        await sending.WithinDeadline();
        Assert.True(broker.Pings > 0);
    }

    [Fact]
    public async Task The_ends_of_a_message_that_was_given_up_are_not_counted_for_the_next()
    {
        using var cancellation = new CancellationTokenSource();
        var broker = new SimulatedBroker(Queue, MqttVersion.V311);
        var givenUp = Queue.PublishManyAsync(new[] { new MqttMessage("bad", default) }, cancellation.Token).AsTask();
        var sending = Send(Some.Batch(Topic("a"), Producer, 1, "1", "2"));

        // Two ends until the messages are isolated, and two with the bad one alone.
        for (var connects = 0; connects < 4; connects++)
            EndAtFirst();
        await cancellation.CancelAsync();
        await Assert.ThrowsAsync<OperationCanceledException>(() => givenUp.WithinDeadline());
        EndAtFirst();
        broker.Connect();
        Serve(broker, isClosing: static _ => false);

        await sending.WithinDeadline();

        void EndAtFirst()
        {
            broker.Connect();
            broker.Arrived.Clear();
            Serve(broker, isClosing: static _ => true);
            broker.Disconnect();
        }
    }

    // Acknowledges what arrives and answers pings, until nothing comes or a message closes the connection.
    private static void Serve(SimulatedBroker broker, Predicate<ArrivedPublish> isClosing)
    {
        while (broker.Take())
        {
            if (broker.Arrived.Exists(publish => isClosing(publish) && broker.Unacknowledged.Contains(publish.PacketId)))
                return;
            broker.AnswerPings();
            broker.AcknowledgeAll();
        }
    }
}
