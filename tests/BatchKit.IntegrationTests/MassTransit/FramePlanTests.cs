using BatchKit.MassTransit;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>Which frames of a send MassTransit's transport sends side by side, and which in turn.</summary>
public sealed class FramePlanTests
{
    private readonly ProducerId _producer = Some.Producer();
    private long _number;

    [Fact]
    public void Batches_for_one_node_are_one_frame() =>
        Assert.Equal("1:ab", Plan(To(1, "a"), To(1, "b")));

    [Theory]
    [InlineData(136, 1)]
    [InlineData(150, 2)]
    public void Batches_for_one_node_are_one_frame_up_to_8_mebibytes_by_default(int batches, int expected)
    {
        var text = new string('x', 60_000);

        Assert.Equal(expected, Plan(Enumerable.Range(0, batches).Select(_ => To(1, text)).ToArray()).Split('|').Length);
    }

    [Fact]
    public void Frames_for_different_nodes_go_side_by_side() =>
        Assert.Equal("1:ac 2:b", Plan(To(1, "a"), To(2, "b"), To(1, "c")));

    [Fact]
    public void A_frame_for_all_waits_for_those_before_it_and_those_after_it_wait() =>
        Assert.Equal("1:a 2:b|all:c|1:d", Plan(To(1, "a"), To(2, "b"), ToAll("c"), To(1, "d")));

    [Fact]
    public void Consecutive_batches_for_all_are_one_frame() =>
        Assert.Equal("all:ab", Plan(ToAll("a"), ToAll("b")));

    [Fact]
    public void A_second_frame_for_a_node_waits_for_the_first() =>
        Assert.Equal("1:a 2:b|1:c", Plan(new MassTransitOptions { MaxFrameBytes = 4096 }, To(1, "a".PadRight(2500)), To(2, "b"), To(1, "c".PadRight(2500))));

    [Fact]
    public void Another_producer_needs_another_frame() =>
        Assert.Equal("1:a|1:b", Plan(To(1, "a"), Some.Batch(Some.Connection(1), Some.Producer(), 1, "b")));

    [Fact]
    public void With_a_destination_node_all_go_there() =>
        Assert.Equal("7:abc", Plan(new MassTransitOptions { DestinationNode = 7 }, To(1, "a"), ToAll("b"), To(2, "c")));

    private static string Plan(params MessageBatch[] batches) => Plan(new MassTransitOptions(), batches);

    private static string Plan(MassTransitOptions options, params MessageBatch[] batches) =>
        string.Join('|', MassTransitTransport.DivideIntoRuns(FramePlan.Create(batches, options.MaxFrameBytes, options.DestinationNode)).Select(run => string.Join(' ', run.Select(frame =>
            $"{(frame.Destination.IsAll ? "all" : frame.Destination.Node)}:{string.Concat(frame.Batches.ToArray().Select(batch => (char)batch.Payload.Span[0]))}"))));

    private MessageBatch To(int node, string text) => Some.Batch(Some.Connection(node), _producer, ++_number, text);

    private MessageBatch ToAll(string text) => Some.Batch(Some.Group(), _producer, ++_number, text);
}
