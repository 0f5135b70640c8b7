using System.Collections.Immutable;
using BatchKit.Transports;
using Xunit;

namespace BatchKit.Testing.Specification;

/// <summary>The rules that every transport obeys together with its receiver. Inherit it in a test class and declare what your transport promises.</summary>
/// <remarks>Each rule is a test of xunit v3. Add tests of your own to the same class: they have the same harness.</remarks>
public abstract class TransportSpecification : ProcessSpecification
{
    /// <summary>The receiver passes on each message with its handle, its bytes, and the producer and number of its batch.</summary>
    [Fact]
    public async Task Messages_arrive_with_their_handle_bytes_and_producer()
    {
        var (handle, producer) = (Connection(), Some.Producer(node: 5, partition: 2));

        await SendAsync(Some.Batch(handle, producer, 7, "one", "two"));
        await Collected.WaitForMessagesAsync(2);

        var batch = Assert.Single(Collected.Batches);
        Assert.Equal((handle, producer, 7L), (batch.Handle, batch.Producer, batch.Number));
        Assert.Equal(["one", "two"], Collected.Texts);
    }

    /// <summary>The messages for one handle arrive in the order in which they were sent.</summary>
    [Fact]
    public async Task Order_holds_for_each_handle()
    {
        var producer = Some.Producer();
        OutputHandle[] handles = [Connection(), Some.Group(), Connection()];

        for (var number = 1; number <= 300; number++)
            await SendAsync(Some.Batch(handles[number % 3], producer, number, $"{number}"));
        await Collected.WaitForMessagesAsync(300);

        foreach (var (handle, index) in handles.Select((handle, index) => (handle, index)))
            Assert.Equal([.. Enumerable.Range(1, 300).Where(number => number % 3 == index).Select(number => $"{number}")], Collected.TextsFor(handle));
    }

    /// <summary>The messages of one producer arrive in the order in which they were sent, across handles too. Needs <see cref="TransportPromises.Ordered"/>.</summary>
    [Fact]
    public async Task Order_holds_across_handles()
    {
        Require(TransportPromises.Ordered);
        var producer = Some.Producer();
        OutputHandle[] handles = [Connection(), Some.Group(), Connection(), Some.Group()];

        for (var number = 1; number <= 100; number += 2)
            await SendAsync(Some.Batch(handles[number % 4], producer, number, $"{number}"), Some.Batch(handles[(number + 1) % 4], producer, number + 1, $"{number + 1}"));
        await Collected.WaitForMessagesAsync(100);

        Assert.Equal(Numbers(1, 100), Collected.Texts);
    }

    /// <summary>
    /// What is written to an <see cref="OutputBuffer"/> outside scopes, while a send is under way, arrives in the order of the writes, across handles too.
    /// Needs <see cref="TransportPromises.Ordered"/>.
    /// </summary>
    [Fact]
    public async Task Order_holds_across_handles_for_what_a_buffer_takes_while_a_send_is_under_way()
    {
        Require(TransportPromises.Ordered);
        var (room, player) = (Some.Group(), Connection());
        var transport = new ScriptedTransport(Harness.Transport);
        var underWay = transport.Stall();
        await using var output = new OutputBuffer(transport, Fitting());

        output.Write(player, "under way");
        await underWay.EnteredAsync();
        output.Write(room, "a");
        output.Write(player, "X");
        output.Write(room, "b");
        underWay.Release();
        await Collected.WaitForMessagesAsync(4);

        Assert.Equal(["under way", "a", "X", "b"], Collected.Texts);
    }

    /// <summary>What a <see cref="MessageWriter"/> wrote arrives in order and whole: what others wrote for the handle meanwhile is before or behind it.</summary>
    [Fact]
    public async Task What_a_writer_wrote_arrives_whole()
    {
        var player = Connection();
        await using var output = new OutputBuffer(Harness.Transport, Fitting());

        WriteBesideOthers();
        await Collected.WaitForMessagesAsync(102);

        Assert.Equal(["before", .. Numbers(1, 100), "behind"], Collected.TextsFor(player));

        void WriteBesideOthers()
        {
            using var outer = output.BeginBufferingScope(player);
            using (var lines = output.BeginWriting(player))
            {
                for (var number = 1; number < 100; number++)
                    lines.Write($"{number}");
                output.Write(player, "before");
                lines.Write("100");
            }

            output.Write(player, "behind");
        }
    }

    /// <summary>A header arrives with its kind, excluded connections, key, content type and properties; a plain message arrives without a header.</summary>
    [Fact]
    public async Task Headers_kinds_exclusions_and_properties_survive()
    {
        var header = Some.FullHeader();
        var batch = MessageBatch.Create(Some.Group(), Some.Producer(), 1,
            Some.Message("plain"), Some.Message("full", header), Some.Message("> ", MessageHeader.Prompt));

        await SendAsync(batch);
        await Collected.WaitForMessagesAsync(3);

        Assert.Null(Collected.Messages[0].Header);
        Assert.Equivalent(header, Collected.Messages[1].Header, strict: true);
        Assert.Equal([MessageKind.Output, MessageKind.Prompt, MessageKind.Prompt], Collected.Messages.Select(message => message.Kind));
    }

    /// <summary>A control message arrives between the messages that were written before and after it, with its payload unchanged.</summary>
    [Fact]
    public async Task A_control_message_keeps_its_place_among_the_output()
    {
        var join = ControlMessage.JoinGroup("lobby");
        var batch = MessageBatch.Create(Connection(), Some.Producer(), 1,
            Some.Message("before"), new BatchMessage(join.ToPayload(), MessageHeader.Control), Some.Message("after"));

        await SendAsync(batch);
        await Collected.WaitForMessagesAsync(3);

        Assert.Equal([MessageKind.Output, MessageKind.Control, MessageKind.Output], Collected.Messages.Select(message => message.Kind));
        Assert.True(ControlMessage.TryRead(Collected.Messages[1].Payload, out var control));
        Assert.Equal(join, control);
    }

    /// <summary>A message without bytes arrives as one.</summary>
    [Fact]
    public async Task Empty_messages_arrive()
    {
        await SendAsync(Some.Batch(Connection(), Some.Producer(), 1, "", "x", ""));
        await Collected.WaitForMessagesAsync(3);

        Assert.Equal(["", "x", ""], Collected.Texts);
    }

    /// <summary>A message of <see cref="TransportTest.LargeMessageBytes"/>, or of the transport's own limit when that is lower, arrives unchanged.</summary>
    [Fact]
    public async Task A_large_message_arrives_whole()
    {
        var payload = Some.RandomBytes(Math.Min(LargeMessageBytes, Harness.Transport.MaxMessageBytes));

        await SendAsync(MessageBatch.Create(Connection(), Some.Producer(), 1, new BatchMessage(payload), Some.Message("behind it")));
        await Collected.WaitForMessagesAsync(2);

        Assert.Equal(payload, Collected.Messages[0].Payload);
        Assert.Equal("behind it", Collected.Messages[1].Text);
    }

    /// <summary>One send takes 4,096 batches; the transport splits them when its broker needs it.</summary>
    [Fact]
    public async Task Thousands_of_batches_leave_in_one_send()
    {
        const int count = 4096;
        var producer = Some.Producer();
        var handles = Enumerable.Range(0, 64).Select(index => index % 4 == 0 ? Some.Group() : Connection()).ToArray();
        var batches = Enumerable.Range(1, count).Select(number => Some.Batch(handles[number % 64], producer, number, $"{number}")).ToArray();

        // A transport may wait for an answer to each of thousands of frames. Each message that arrives extends the deadline.
        var sending = Harness.Transport.SendAsync(batches, CancellationToken.None).AsTask();
        var arriving = Collected.WaitForMessagesAsync(count);
        await await Task.WhenAny(sending, arriving);
        await Task.WhenAll(sending.WithinDeadline(), arriving);

        foreach (var (handle, index) in handles.Select((handle, index) => (handle, index)))
            Assert.Equal([.. Enumerable.Range(1, count).Where(number => number % 64 == index).Select(number => $"{number}")], Collected.TextsFor(handle));
    }

    /// <summary>A send stays incomplete while the receiver's next hop holds its batches. Needs <see cref="TransportPromises.AcknowledgesAfterNextHop"/>.</summary>
    [Fact]
    public async Task A_send_completes_only_after_the_next_hop_has_it()
    {
        Require(TransportPromises.AcknowledgesAfterNextHop);
        var stalled = NextHop.Stall();

        var sending = SendAsync(Some.Batch(Connection(), Some.Producer(), 1, "held"));
        await stalled.EnteredAsync();
        var completedEarly = sending.IsCompleted;
        stalled.Release();
        await sending;

        Assert.False(completedEarly);
        Assert.Equal(["held"], Collected.Texts);
    }

    /// <summary>A send with a cancelled token throws <see cref="OperationCanceledException"/>, and its batches never arrive.</summary>
    [Fact]
    public async Task A_cancelled_token_throws_and_sends_nothing()
    {
        var (handle, producer) = (Connection(), Some.Producer());
        MessageBatch[] cancelled = [Some.Batch(handle, producer, 1, "never")];

        await Assert.ThrowsAnyAsync<OperationCanceledException>(
            () => Harness.Transport.SendAsync(cancelled, new CancellationToken(canceled: true)).WithinDeadline());
        await SendAsync(Some.Batch(handle, producer, 2, "marker"));
        await Collected.WaitForMessagesAsync(1);

        Assert.Equal(["marker"], Collected.Texts);
    }

    /// <summary>
    /// A send that is cancelled at any moment ends, and the transport goes on. What such a send left unacknowledged is sent again unchanged, as a buffer does; then nothing is lost, the order of each handle holds, and nothing
    /// arrives twice where the transport promises <see cref="TransportPromises.Once"/>. <see cref="TransportTest.Cancellations"/> says how many sends are cancelled.
    /// </summary>
    [Fact]
    public async Task Sends_that_are_cancelled_at_any_moment_and_sent_again_lose_nothing_and_keep_the_order()
    {
        var (handle, producer, random) = (Connection(), Some.Producer(), new Random(Cancellations));
        for (var number = 1; number < 2 * Cancellations; number += 2)
        {
            using var cancellation = new CancellationTokenSource();
            var sending = SendUntilAcknowledgedAsync([Some.Batch(handle, producer, number, $"{number}"), Some.Batch(handle, producer, number + 1, $"{number + 1}")], cancellation.Token);
            for (var turns = random.Next(1 << random.Next(12)); turns > 0; turns--)
                await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
            await cancellation.CancelAsync();
            await sending.WithinDeadline();
        }

        var last = (2 * Cancellations) + 1;
        await SendAsync(Some.Batch(handle, producer, last, $"{last}"));
        while (Collected.TextsFor(handle) is var arrived && (arrived.Count == 0 || arrived[^1] != $"{last}"))
            await Collected.WaitForMessagesAsync(handle, arrived.Count + 1);

        AssertArrived(Numbers(1, last), Collected.TextsFor(handle));
    }

    /// <summary>A send through a disposed transport throws <see cref="ObjectDisposedException"/>, and its batches never arrive.</summary>
    [Fact]
    public async Task A_disposed_transport_throws()
    {
        MessageBatch[] batches = [Some.Batch(Connection(), Some.Producer(), 1, "never")];

        await Harness.DisposeTransportAsync();

        await Assert.ThrowsAsync<ObjectDisposedException>(() => Harness.Transport.SendAsync(batches, CancellationToken.None).WithinDeadline());
        Assert.Empty(Collected.Texts);
    }

    /// <summary>The receiver drops a batch that its next hop refuses, and passes on those before and after it.</summary>
    [Fact]
    public async Task A_batch_that_the_next_hop_refuses_does_not_block_its_neighbours()
    {
        var (refused, other, producer) = (Connection(), Connection(), Some.Producer());
        NextHop.RefuseWhere(batch => batch.Handle == refused);

        await SendAsync(Some.Batch(other, producer, 1, "before"), Some.Batch(refused, producer, 2, "refused"), Some.Batch(other, producer, 3, "after"));
        await SendAsync(Some.Batch(other, producer, 4, "later"));
        await Collected.WaitForMessagesAsync(3);

        Assert.Equal(["before", "after", "later"], Collected.Texts);
    }

    /// <summary>The receiver retries a failed batch before it passes on a newer one, so that none is lost, repeated or overtaken.</summary>
    [Fact]
    public async Task A_failing_next_hop_is_tried_again_in_place_without_loss_or_repeat()
    {
        var (handle, producer) = (Connection(), Some.Producer());
        NextHop.Fail(sends: 3);

        for (var number = 1; number <= 20; number++)
            await SendAsync(Some.Batch(handle, producer, number, $"{number}"));
        await Collected.WaitForMessagesAsync(20);

        Assert.Equal(Numbers(1, 20), Collected.Texts);
    }

    /// <summary>The receiver retries only the batches that its next hop did not acknowledge.</summary>
    [Fact]
    public async Task A_next_hop_that_took_a_part_gets_only_the_rest_again()
    {
        var (handle, producer) = (Connection(), Some.Producer());
        NextHop.Answer(BatchOutcome.Acknowledged, BatchOutcome.Unacknowledged);

        await SendAsync(Some.Batch(handle, producer, 1, "one"), Some.Batch(handle, producer, 2, "two"), Some.Batch(handle, producer, 3, "three"));
        await Collected.WaitForMessagesAsync(3);

        Assert.Equal(["one", "two", "three"], Collected.Texts);
    }

    /// <summary>The receiver drops batches that it has seen before. Needs <see cref="TransportPromises.Once"/>.</summary>
    [Fact]
    public async Task What_is_sent_again_is_dropped()
    {
        Require(TransportPromises.Once);
        var (handle, group, producer) = (Connection(), Some.Group(), Some.Producer());
        MessageBatch[] batches = [Some.Batch(handle, producer, 1, "one"), Some.Batch(group, producer, 2, "two")];

        await SendAsync(batches);
        await SendAsync(batches);
        await SendAsync(Some.Batch(group, producer, 3, "three"), Some.Batch(handle, producer, 4, "four"));
        await Collected.WaitForMessagesAsync(4);

        Assert.Equal(["one", "four"], Collected.TextsFor(handle));
        Assert.Equal(["two", "three"], Collected.TextsFor(group));
    }

    /// <summary>A send throws <see cref="BatchSendException"/> that refuses the batch for a node without a receiver; the other batches arrive. Needs <see cref="TransportPromises.RefusesMissingNodes"/>.</summary>
    [Fact]
    public async Task A_batch_for_a_missing_node_is_refused_and_its_neighbours_arrive()
    {
        Require(TransportPromises.RefusesMissingNodes);
        var (here, producer) = (Connection(), Some.Producer());
        var gone = Some.Connection(node: ReceiverNode + 1);

        var exception = await Assert.ThrowsAsync<BatchSendException>(
            () => SendAsync(Some.Batch(here, producer, 1, "one"), Some.Batch(gone, producer, 2, "lost"), Some.Batch(here, producer, 3, "three")));
        await Collected.WaitForMessagesAsync(2);

        ImmutableArray<BatchOutcome> expected = [BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Acknowledged];
        Assert.Equal(expected, exception.Outcomes);
        Assert.Equal(["one", "three"], Collected.Texts);
    }

    private async Task SendUntilAcknowledgedAsync(MessageBatch[] batches, CancellationToken cancellationToken)
    {
        const int maxFailures = 1000;
        for (var failures = 0; ; failures++)
        {
            try
            {
                await Harness.Transport.SendAsync(batches, cancellationToken);
                return;
            }
            catch (Exception failure) when (failures < maxFailures)
            {
                Assert.DoesNotContain(BatchOutcome.Refused, batches.Select((_, index) => OutcomeOf(failure, index)));
                batches = [.. batches.Where((_, index) => OutcomeOf(failure, index) is BatchOutcome.Unacknowledged or BatchOutcome.Busy)];
                if (batches.Length == 0)
                    return;
            }

            if (cancellationToken.IsCancellationRequested)
                cancellationToken = CancellationToken.None;
            await Task.Delay(TimeSpan.FromMilliseconds(1), TimeProvider.System, CancellationToken.None);
        }
    }
}
