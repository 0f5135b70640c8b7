using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Transports;

/// <summary>Which frames of a send are published side by side, which in turn, and which not at all.</summary>
public sealed class FrameTurnsTests
{
    private readonly ProducerId _producer = Some.Producer();
    private long _number;

    [Fact]
    public async Task Batches_for_one_node_are_one_frame() =>
        Assert.Equal("1:ab", await PublishAsync([To(1, "a"), To(1, "b")]));

    [Fact]
    public async Task Frames_for_different_nodes_go_side_by_side() =>
        Assert.Equal("1:ac 2:b", await PublishAsync([To(1, "a"), To(2, "b"), To(1, "c")]));

    [Fact]
    public async Task A_frame_for_all_waits_for_those_before_it_and_those_after_it_wait() =>
        Assert.Equal("1:a 2:b|all:c|1:d", await PublishAsync([To(1, "a"), To(2, "b"), ToAll("c"), To(1, "d")]));

    [Fact]
    public async Task Consecutive_batches_for_all_are_one_frame() =>
        Assert.Equal("all:ab", await PublishAsync([ToAll("a"), ToAll("b")]));

    [Fact]
    public async Task A_second_frame_for_a_node_waits_for_the_first() =>
        Assert.Equal("1:a 2:b|1:c", await PublishAsync([To(1, "a".PadRight(2500)), To(2, "b"), To(1, "c".PadRight(2500))]));

    [Fact]
    public async Task Another_producer_needs_another_frame() =>
        Assert.Equal("1:a|1:b", await PublishAsync([To(1, "a"), Some.Batch(Some.Connection(1), Some.Producer(), 1, "b")]));

    [Fact]
    public async Task With_a_destination_node_all_go_there() =>
        Assert.Equal("7:abc", await PublishAsync([To(1, "a"), ToAll("b"), To(2, "c")], destinationNode: 7));

    [Fact]
    public async Task Behind_a_frame_that_is_held_up_only_those_for_other_receivers_are_published() =>
        Assert.Equal("1:a 2:b|2:d", await PublishAsync([To(1, "a".PadRight(2500)), To(2, "b".PadRight(2500)), To(1, "c".PadRight(2500)), To(2, "d".PadRight(2500)), ToAll("e"), To(2, "f")], heldUp: "a"));

    [Fact]
    public async Task Nothing_is_published_behind_a_frame_that_holds_up_all() =>
        Assert.Equal("1:a 2:b", await PublishAsync([To(1, "a"), To(2, "b"), ToAll("c"), To(2, "d")], heldUp: "a", holdsUpAll: true));

    private static async Task<string> PublishAsync(MessageBatch[] batches, int? destinationNode = null, string? heldUp = null, bool holdsUpAll = false)
    {
        var runs = new List<string>();
        var frames = FramePlan.Create(batches, maxFrameBytes: 4096, destinationNode);
        await FrameTurns.PublishAsync(frames, Publish, HoldUp);
        return string.Join('|', runs);

        ValueTask<FrameResult[]> Publish(PlannedFrame[] run)
        {
            runs.Add(string.Join(' ', run.Select(static frame => $"{(frame.Destination.IsAll ? "all" : frame.Destination.Node)}:{TextOf(frame)}")));
            return ValueTask.FromResult(Array.ConvertAll(run, frame => new FrameResult(TextOf(frame) == heldUp ? FrameOutcome.NotTaken : FrameOutcome.Acknowledged)));
        }

        FrameDestination? HoldUp(FrameDestination destination, FrameResult result) =>
            result.Outcome == FrameOutcome.Acknowledged ? null : holdsUpAll ? FrameDestination.All : destination;
    }

    private static string TextOf(PlannedFrame frame) => string.Concat(frame.Batches.ToArray().Select(static batch => (char)batch.Payload.Span[0]));

    private MessageBatch To(int node, string text) => Some.Batch(Some.Connection(node), _producer, ++_number, text);

    private MessageBatch ToAll(string text) => Some.Batch(Some.Group(), _producer, ++_number, text);
}
