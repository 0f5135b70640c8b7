using BatchKit.Transports;

namespace BatchKit.MassTransit;

/// <summary>One frame to be: its batches, where they stand in the send, and the node that they go to, or null for all nodes.</summary>
internal sealed class PlannedFrame(int? node)
{
    public int? Node { get; } = node;

    public List<MessageBatch> Batches { get; } = [];

    public List<int> Places { get; } = [];
}
