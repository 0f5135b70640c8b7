using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Transports;

public sealed class FramePlanTests
{
    private const int NoLimit = int.MaxValue;

    private readonly ProducerId _producer = Some.Producer();

    [Fact]
    public void A_send_for_one_node_is_one_frame()
    {
        var frames = FramePlan.Create(new[] { To(1, 1), To(1, 2) }, NoLimit, destinationNode: null);

        var frame = Assert.Single(frames);
        Assert.Equal((false, 1), (frame.Destination.IsAll, frame.Destination.Node));
        Assert.Equal([1, 2], Numbers(frame));
    }

    [Fact]
    public void Each_node_has_one_frame_and_a_frame_to_all_parts_them()
    {
        var frames = FramePlan.Create(new[] { To(1, 1), To(2, 2), To(1, 3), ToAll(4), ToAll(5), To(1, 6) }, NoLimit, destinationNode: null);

        Assert.Equal(["node 1", "node 2", "all nodes", "node 1"], frames.Select(frame => frame.Destination.ToString()));
        Assert.Equal([[1, 3], [2], [4, 5], [6]], frames.Select(Numbers));
        Assert.Equal([2, 1, 1, 1], Enumerable.Range(0, 4).Select(first => FramePlan.CountApart(frames, first)));
    }

    [Fact]
    public void With_a_destination_node_everything_goes_there()
    {
        var frames = FramePlan.Create(new[] { To(1, 1), ToAll(2) }, NoLimit, destinationNode: 7);

        var frame = Assert.Single(frames);
        Assert.Equal(7, frame.Destination.Node);
        Assert.Equal([1, 2], Numbers(frame));
    }

    [Fact]
    public void A_frame_has_no_more_batches_and_messages_than_a_receiver_takes()
    {
        var limits = new FrameLimits();
        var batches = Enumerable.Range(1, limits.MaxBatches + 1).Select(number => To(1, number)).ToArray();
        var lines = new BatchMessage[limits.MaxMessages / 2];
        var large = Enumerable.Range(1, 3).Select(number => MessageBatch.Create(OutputHandle.Connection(1, 1), _producer, number, lines)).ToArray();

        Assert.Equal([limits.MaxBatches, 1], FramePlan.Create(batches, NoLimit, destinationNode: null).Select(static frame => frame.Batches.Length));
        Assert.Equal([[1, 2], [3]], FramePlan.Create(large, NoLimit, destinationNode: null).Select(Numbers));
    }

    [Fact]
    public void A_frame_ends_before_it_passes_the_limit()
    {
        var one = FrameWriter.Measure([To(1, 1)]);

        var frames = FramePlan.Create(new[] { To(1, 1), To(1, 2), To(1, 3) }, 2 * one, destinationNode: null);

        Assert.Equal([[1, 2], [3]], frames.Select(Numbers));
    }

    [Fact]
    public void Two_producers_do_not_share_a_frame()
    {
        var other = Some.Batch(Some.Connection(1), Some.Producer(), 1, "x");

        var frames = FramePlan.Create(new[] { To(1, 1), other }, NoLimit, destinationNode: null);

        Assert.Equal(2, frames.Count);
    }

    [Fact]
    public void A_send_that_measures_exactly_the_limit_is_one_frame_and_one_byte_more_is_two()
    {
        MessageBatch[] batches = [To(1, 1), To(1, 2)];
        var both = 2 * FrameWriter.Measure([batches[0]]);

        Assert.Equal([[1, 2]], FramePlan.Create(batches, both, destinationNode: null).Select(Numbers));
        Assert.Equal([[1], [2]], FramePlan.Create(batches, both - 1, destinationNode: null).Select(Numbers));
    }

    [Fact]
    public void A_nodes_frame_that_measures_exactly_the_limit_is_full()
    {
        MessageBatch[] batches = [To(1, 1), To(2, 2), To(1, 3), To(1, 4)];
        var both = 2 * FrameWriter.Measure([batches[0]]);

        Assert.Equal([[1, 3], [2], [4]], FramePlan.Create(batches, both, destinationNode: null).Select(Numbers));
        Assert.Equal([[1], [2], [3], [4]], FramePlan.Create(batches, both - 1, destinationNode: null).Select(Numbers));
    }

    [Fact]
    public void A_batch_above_the_limit_has_a_frame_of_its_own()
    {
        MessageBatch[] batches = [To(1, 1), Some.Batch(Some.Connection(1), _producer, 2, new string('x', 500)), To(1, 3)];

        var frames = FramePlan.Create(batches, maxFrameBytes: 300, destinationNode: null);

        Assert.Equal([[1], [2], [3]], frames.Select(Numbers));
    }

    [Fact]
    public void A_send_with_another_producer_at_its_end_is_not_one_frame()
    {
        var other = Some.Producer();
        MessageBatch[] batches = [To(1, 1), To(1, 2), Some.Batch(Some.Connection(1), other, 1, "x"), To(1, 3)];

        var frames = FramePlan.Create(batches, NoLimit, destinationNode: null);

        Assert.Equal([[1, 2], [1], [3]], frames.Select(Numbers));
        Assert.Equal([_producer, other, _producer], frames.Select(frame => frame.Batches[0].Producer));
    }

    [Theory]
    [InlineData(true, 1)]
    [InlineData(false, 2)]
    public void A_send_for_a_connection_and_a_group_is_one_frame_only_when_both_go_to_one_node(bool hasDestinationNode, int frames)
    {
        var planned = FramePlan.Create(new[] { To(1, 1), ToAll(2) }, NoLimit, hasDestinationNode ? 1 : null);

        Assert.Equal(frames, planned.Count);
    }

    [Fact]
    public void Groups_share_a_frame_until_output_for_a_node_comes_between_them()
    {
        var (hall, cave) = (Some.Group(), Some.Group());
        MessageBatch[] batches = [To(hall, 1), To(hall, 2), To(1, 3), To(hall, 4), To(cave, 5), To(2, 6), To(hall, 7)];

        var frames = Plan(batches);

        Assert.Equal(["all nodes with members", "node 1", "all nodes with members", "node 2", "all nodes with members"], frames.Select(frame => frame.Destination.ToString()));
        Assert.Equal([[hall.Name!], [], [hall.Name!, cave.Name!], [], [hall.Name!]], frames.Select(frame => frame.Groups.ToArray()));
        Assert.Equal([[1, 2], [3], [4, 5], [6], [7]], frames.Select(Numbers));
        Assert.Equal([true, false, true, false, true], frames.Select(frame => frame.Destination.IsAll));
    }

    [Fact]
    public void A_send_to_several_groups_is_one_frame_with_all_their_names()
    {
        OutputHandle[] groups = [Some.Group(), Some.Group(), Some.Group()];

        var frame = Assert.Single(Plan([To(groups[0], 1), To(groups[1], 2), To(groups[0], 3), To(groups[2], 4)]));

        Assert.Equal((FrameDestination.Members, 3), (frame.Destination, frame.Groups.Count));
        Assert.True(frame.Groups.SetEquals(groups.Select(static group => group.Name!)));
        Assert.Equal([1, 2, 3, 4], Numbers(frame));
    }

    [Fact]
    public void One_group_fills_a_frame_up_to_the_frames_limit_and_several_up_to_64_kibibytes()
    {
        var (hall, cave) = (Some.Group(), Some.Group());
        MessageBatch Large(OutputHandle handle, long number) => Some.Batch(handle, _producer, number, new string('x', 30_000));

        Assert.Equal([[1, 2, 3]], Plan([Large(hall, 1), Large(hall, 2), Large(hall, 3)]).Select(Numbers));
        Assert.Equal([[1, 2], [3]], Plan([Large(hall, 1), Large(hall, 2), To(cave, 3)], maxFrameBytes: 60_500).Select(Numbers));
        Assert.Equal([[1, 2, 3], [4]], Plan([Large(hall, 1), Large(hall, 2), Large(hall, 3), To(cave, 4)]).Select(Numbers));
        Assert.Equal([[1, 2], [3]], Plan([Large(hall, 1), Large(cave, 2), Large(hall, 3)]).Select(Numbers));
    }

    [Fact]
    public void What_several_groups_have_in_a_frame_measures_at_most_exactly_64_kibibytes()
    {
        var (hall, cave) = (Some.Group(), Some.Group());
        var other = To(cave, 2);
        var rest = (64 * 1024) - FrameWriter.Measure([other]) - FrameWriter.Measure([Text(0)]);
        MessageBatch Text(int length) => Some.Batch(hall, _producer, 1, new string('x', 40_000 + length));

        // A length of more than 40,000 has as many bytes of its own as one of at most 65,536.
        Assert.Equal([[1, 2]], Plan([Text(rest), other]).Select(Numbers));
        Assert.Equal([[1], [2]], Plan([Text(rest + 1), other]).Select(Numbers));
    }

    [Theory]
    [InlineData(256, "all nodes with members", 256)]
    [InlineData(257, "all nodes", 0)]
    [InlineData(5000, "all nodes", 0)]
    public void A_frame_with_more_than_256_groups_goes_to_all_nodes(int groups, string destination, int named)
    {
        var batches = Enumerable.Range(1, groups).Select(number => ToAll(number)).ToArray();

        var frame = Assert.Single(Plan([.. batches, To(batches[7].Handle, groups + 1)]));

        Assert.Equal((destination, named), (frame.Destination.ToString(), frame.Groups.Count));
        Assert.Equal(Enumerable.Range(1, groups + 1).Select(static number => (long)number), Numbers(frame));
    }

    [Fact]
    public void Behind_a_frame_of_many_groups_output_for_a_node_begins_a_new_one()
    {
        var batches = Enumerable.Range(1, 300).Select(number => ToAll(number)).ToArray();

        var frames = Plan([.. batches, To(1, 301), ToAll(302)]);

        Assert.Equal(["all nodes", "node 1", "all nodes with members"], frames.Select(frame => frame.Destination.ToString()));
    }

    [Fact]
    public void Output_for_one_group_is_one_frame_for_that_group()
    {
        var group = Some.Group();

        var frame = Assert.Single(Plan([To(group, 1), To(group, 2)]));

        Assert.Equal((FrameDestination.Members, group.Name), (frame.Destination, Assert.Single(frame.Groups)));
        Assert.Equal([1, 2], Numbers(frame));
    }

    [Fact]
    public void With_a_destination_node_groups_go_there_too()
    {
        var frame = Assert.Single(FramePlan.Create(new[] { ToAll(1), ToAll(2) }, NoLimit, destinationNode: 7, byMembers: true));

        Assert.Equal((7, 0), (frame.Destination.Node, frame.Groups.Count));
    }

    [Fact]
    public void No_frames_are_planned_for_no_batches() => Assert.Empty(FramePlan.Create(default, NoLimit, destinationNode: null));

    [Fact]
    public void Many_messages_that_share_a_header_fit_the_frame_that_they_take()
    {
        var header = new MessageHeader { Type = new string('T', 200), ContentType = "application/json" };
        var batch = MessageBatch.Create(Some.Connection(1), _producer, 1, [.. Enumerable.Repeat(Some.Message("8 bytes.", header), 1000)]);

        Assert.InRange(FrameWriter.Measure([batch]), Some.Frame(batch).Length, 13_000);
    }

    [Fact]
    public void An_acknowledged_frame_and_a_refused_one_are_reported_at_the_places_of_their_batches()
    {
        var report = Report([To(1, 1), To(2, 2), To(1, 3)], new FrameResult(FrameOutcome.Acknowledged), new FrameResult(FrameOutcome.Refused, "Gone."));

        var exception = Assert.IsType<BatchSendException>(report);
        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Acknowledged], exception.Outcomes);
        Assert.Equal("The broker did not accept everything. Gone.", exception.Message);
    }

    [Fact]
    public void A_frame_that_was_not_taken_waits_for_its_receivers_alone()
    {
        var report = Report([To(1, 1), To(2, 2)], new FrameResult(FrameOutcome.NotTaken, "Full."), new FrameResult(FrameOutcome.Acknowledged));

        Assert.Equal([BatchOutcome.Busy, BatchOutcome.Acknowledged], Assert.IsType<BatchSendException>(report).Outcomes);
    }

    [Fact]
    public void A_frame_that_was_not_taken_is_sent_again_with_one_that_was_not_answered_because_the_next_hop_may_be_gone()
    {
        var report = Report([To(1, 1), To(2, 2)], new FrameResult(FrameOutcome.NotTaken, "Full."), new FrameResult(FrameOutcome.Unknown, "Late."));

        Assert.IsType<IOException>(report);
    }

    [Fact]
    public void A_frame_that_was_not_taken_and_overtaken_is_refused_because_it_would_look_like_a_repeat()
    {
        var report = Report([To(1, 1), ToAll(2)], new FrameResult(FrameOutcome.NotTaken, "Full."), new FrameResult(FrameOutcome.Acknowledged));

        Assert.Equal([BatchOutcome.Refused, BatchOutcome.Acknowledged], Assert.IsType<BatchSendException>(report).Outcomes);
    }

    [Fact]
    public void A_frame_without_an_answer_is_sent_again_although_a_later_one_was_acknowledged()
    {
        var report = Report([To(1, 1), ToAll(2)], new FrameResult(FrameOutcome.Unknown, "Late."), new FrameResult(FrameOutcome.Acknowledged));

        Assert.Equal([BatchOutcome.Unacknowledged, BatchOutcome.Acknowledged], Assert.IsType<BatchSendException>(report).Outcomes);
    }

    [Fact]
    public void Nothing_acknowledged_and_nothing_refused_is_an_IOException_with_its_cause()
    {
        var cause = new TimeoutException("Late.");

        var report = Report([To(1, 1), To(2, 2)], new FrameResult(FrameOutcome.Unknown, "Late.", cause), new FrameResult(FrameOutcome.NotTaken, "Late."));

        Assert.Equal("The broker did not accept everything. Late.", Assert.IsType<IOException>(report).Message);
        Assert.Same(cause, report.InnerException);
    }

    private static Exception Report(MessageBatch[] batches, params FrameResult[] results) =>
        FrameReport.ToException("The broker", FramePlan.Create(batches, NoLimit, destinationNode: null), results, batches.Length);

    private static IReadOnlyList<PlannedFrame> Plan(MessageBatch[] batches, int maxFrameBytes = NoLimit) => FramePlan.Create(batches, maxFrameBytes, destinationNode: null, byMembers: true);

    private static long[] Numbers(PlannedFrame frame) => [.. frame.Batches.ToArray().Select(batch => batch.Number)];

    private MessageBatch To(OutputHandle handle, long number) => Some.Batch(handle, _producer, number, "x");

    private MessageBatch To(int node, long number) => Some.Batch(Some.Connection(node), _producer, number, "x");

    private MessageBatch ToAll(long number) => Some.Batch(Some.Group(), _producer, number, "x");
}
