using BatchKit.Transports;

namespace BatchKit.MassTransit;

/// <summary>One frame to be: its batches, where they stand in the send, and the node that they go to, or null for all nodes.</summary>
internal sealed class PlannedFrame(int? node)
{
    private long _bytes;

    public int? Node { get; } = node;

    public List<MessageBatch> Batches { get; } = [];

    public List<int> Places { get; } = [];

    /// <summary>True when it has one batch that no frame can hold.</summary>
    public bool IsTooLarge(int maxBytes) => _bytes > maxBytes;

    public bool Takes(MessageBatch batch, int maxBytes) =>
        batch.Producer == Batches[0].Producer && _bytes + FrameWriter.Measure([batch]) <= maxBytes;

    public void Add(MessageBatch batch, int place)
    {
        _bytes += FrameWriter.Measure([batch]);
        Batches.Add(batch);
        Places.Add(place);
    }
}
