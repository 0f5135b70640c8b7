using System.Collections.Immutable;
using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Publishing;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Tests.Publishing;

/// <summary>What a queue writes, when its sends complete, and what it sends again.</summary>
public sealed class PublishQueueTests : PublishQueueTest
{
    [Fact]
    public async Task A_send_completes_when_all_its_messages_are_acknowledged()
    {
        Broker.Connect();

        var sending = Send(Some.Batch(Topic("a"), Producer, 1, "1", "2"), Some.Batch(Topic("b"), Producer, 2, "3"));
        Broker.Take();
        Broker.Acknowledge();
        Broker.Acknowledge();
        var completedEarly = sending.IsCompleted;
        Broker.Acknowledge();
        await sending.WithinDeadline();

        Assert.False(completedEarly);
        Assert.Equal([("a", "1"), ("a", "2"), ("b", "3")], Broker.Arrived.Select(publish => (publish.Topic, publish.Text)));
    }

    [Fact]
    public async Task Qos_0_completes_when_it_is_written()
    {
        Options.QualityOfService = MqttQualityOfService.AtMostOnce;
        Broker.Connect();

        var sending = Send(Some.Batch(Topic("a"), Producer, 1, "1", "2"));
        Broker.Take();
        await sending.WithinDeadline();

        Assert.Empty(Broker.Unacknowledged);
        Assert.Equal(2, Queue.GetStatistics().AcknowledgedMessages);
    }

    [Theory]
    [InlineData(20, 4)]
    [InlineData(2, 2)]
    public async Task The_window_is_the_smaller_of_ours_and_the_brokers(int receiveMaximum, int window)
    {
        Broker.Connect(new ConnackPacket { ReceiveMaximum = receiveMaximum });

        var sending = Send(Some.Batch(Topic("a"), Producer, 1, Some.Lines(10)));
        Broker.Take();

        Assert.Equal(window, Broker.Unacknowledged.Count);
        Assert.False(Broker.Take());
        while (!sending.IsCompleted)
        {
            Broker.Acknowledge();
            Broker.Take();
            Assert.InRange(Broker.Unacknowledged.Count, 0, window);
            if (Broker.Unacknowledged.Count == 0)
                break;
        }

        await sending.WithinDeadline();
        Assert.Equal(Some.Lines(10), Broker.Texts);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task After_a_lost_connection_the_unacknowledged_come_first_marked_as_duplicates_if_the_broker_has_the_session(bool isSessionPresent)
    {
        Broker.Connect();
        var sending = Send(Some.Batch(Topic("a"), Producer, 1, Some.Lines(6)));
        Broker.Take();
        Broker.Acknowledge();
        Broker.Disconnect();

        Broker.Connect(new ConnackPacket { IsSessionPresent = isSessionPresent });
        while (Broker.Take() || Broker.Unacknowledged.Count > 0)
            Broker.AcknowledgeAll();
        await sending.WithinDeadline();

        Assert.Equal([.. Some.Lines(4), .. Some.Lines(5, start: 1)], Broker.Texts);
        Assert.Equal([.. new bool[4], .. Enumerable.Repeat(isSessionPresent, 3), false, false], Broker.Arrived.Select(publish => publish.IsDuplicate));
        Assert.Equal(Broker.Arrived[1].PacketId, Broker.Arrived[4].PacketId);
        Assert.Equal(3, Queue.GetStatistics().ResentMessages);
    }

    [Fact]
    public async Task A_cancelled_send_says_what_was_acknowledged_and_goes_on_there_when_it_is_sent_again()
    {
        using var cancellation = new CancellationTokenSource();
        MessageBatch[] batches = [Some.Batch(Topic("a"), Producer, 1, "1"), Some.Batch(Topic("b"), Producer, 2, "2", "3", "4")];
        Broker.Connect();
        var sending = Queue.SendAsync(batches, cancellation.Token).AsTask();
        Broker.Take();
        Broker.Acknowledge();
        Broker.Acknowledge();

        await cancellation.CancelAsync();
        var failure = await Assert.ThrowsAsync<BatchSendException>(() => sending.WithinDeadline());
        var again = Send(batches[1]);
        var tookMore = Broker.Take();
        Broker.AcknowledgeAll();
        await again.WithinDeadline();

        ImmutableArray<BatchOutcome> expected = [BatchOutcome.Acknowledged, BatchOutcome.Unacknowledged];
        Assert.Equal(expected, failure.Outcomes);
        Assert.False(tookMore);
        Assert.Equal(["1", "2", "3", "4"], Broker.Texts);
    }

    // Dispatch halves a send that keeps failing, to find the batch for which it does.
    [Fact]
    public async Task A_batch_that_is_not_in_the_next_send_goes_on_where_it_stopped_when_it_is_sent_again()
    {
        MessageBatch[] batches = [Some.Batch(Topic("a"), Producer, 1, "1"), Some.Batch(Topic("b"), Producer, 2, "2", "3", "4")];
        Broker.Connect();
        await SendInVainAsync(batches);
        Broker.Acknowledge(1);
        await SendInVainAsync(batches[..1]);
        Broker.AcknowledgeAll();

        var again = Send(batches);
        Broker.Take();
        Broker.AcknowledgeAll();
        await again.WithinDeadline();

        Assert.Equal(["1", "2", "3", "4"], Broker.Texts);
        Assert.Equal((4L, 4L), (Queue.GetStatistics().AcceptedMessages, Queue.GetStatistics().AcknowledgedMessages));
    }

    [Fact]
    public async Task What_a_producer_does_not_bring_back_is_not_sent_again()
    {
        using var cancellation = new CancellationTokenSource();
        Broker.Connect();
        var sending = Queue.SendAsync(new[] { Some.Batch(Topic("a"), Producer, 1, "given up") }, cancellation.Token).AsTask();
        Broker.Take();
        await cancellation.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => sending.WithinDeadline());
        Broker.Disconnect();

        var next = Send(Some.Batch(Topic("a"), Producer, 2, "next"));
        Broker.Connect();
        Broker.Take();
        Broker.AcknowledgeAll();
        await next.WithinDeadline();

        Assert.Equal(["given up", "next"], Broker.Texts);
    }

    [Fact]
    public async Task A_call_without_messages_completes() => Assert.Equal(0, (await Queue.PublishManyAsync(default, CancellationToken.None)).Count);

    [Fact]
    public async Task Qos_0_that_was_being_written_when_the_connection_was_lost_is_counted_and_not_sent_again()
    {
        Options.QualityOfService = MqttQualityOfService.AtMostOnce;
        Broker.Connect();
        var sending = Send(Some.Batch(Topic("a"), Producer, 1, "1", "2"));

        Broker.Take(completes: false);
        await sending.WithinDeadline();
        Broker.Connect();

        Assert.False(Broker.Take());
        Assert.Equal(2, Queue.GetStatistics().LostMessages);
    }

    [Fact]
    public async Task Rules_set_what_a_message_leaves_open()
    {
        Options.TopicRules.Add(new MqttTopicRule { Filter = "fast/#", QualityOfService = MqttQualityOfService.AtMostOnce });
        using var queue = new PublishQueue(Options, Time);
        var broker = new SimulatedBroker(queue);
        broker.Connect();

        var publishing = queue.PublishManyAsync(new MqttMessage[] { new("fast/a", default), new("slow/a", default), new("fast/b", default) { QualityOfService = MqttQualityOfService.AtLeastOnce } }, CancellationToken.None).AsTask();
        broker.Take();

        Assert.Equal([true, false, false], broker.Arrived.Select(publish => publish.PacketId == 0));
        broker.AcknowledgeAll();
        await publishing.WithinDeadline();
    }

    private async Task SendInVainAsync(MessageBatch[] batches)
    {
        using var cancellation = new CancellationTokenSource();
        var sending = Queue.SendAsync(batches, cancellation.Token).AsTask();
        Broker.Take();
        await cancellation.CancelAsync();
        await Assert.ThrowsAnyAsync<Exception>(() => sending.WithinDeadline());
    }

    [Fact]
    public async Task Topics_are_named_once_and_then_by_alias()
    {
        Options.MaxTopicAliases = 10;
        Broker.Connect(new ConnackPacket { TopicAliasMaximum = 1 });

        var sending = Send(Some.Batch(Topic("a"), Producer, 1, "1", "2"), Some.Batch(Topic("b"), Producer, 2, "3"));
        Broker.Take();
        Broker.AcknowledgeAll();
        await sending.WithinDeadline();

        Assert.Equal(["a", "", "b"], Broker.Arrived.Select(publish => publish.Topic));
    }

    [Fact]
    public async Task A_message_that_fits_only_without_an_alias_is_sent_without_one()
    {
        const int withoutPayload = 8;
        const int largest = 100;
        Options.MaxTopicAliases = 10;
        Broker.Connect(new ConnackPacket { TopicAliasMaximum = 10, MaxPacketBytes = largest });

        var publishing = Queue.PublishManyAsync(Array.ConvertAll((int[])[largest - withoutPayload, 1, largest - withoutPayload], static bytes => new MqttMessage("a", new byte[bytes]))).AsTask();
        Broker.Take();
        Broker.AcknowledgeAll();

        Assert.True((await publishing.WithinDeadline()).IsSuccess);
        Assert.Equal(["a", "a", "a"], Broker.Arrived.Select(publish => publish.Topic));
    }
}
