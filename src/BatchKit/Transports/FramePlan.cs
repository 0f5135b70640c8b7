namespace BatchKit.Transports;

/// <summary>Shares a send's batches out among as few frames as keep the order of every receiver, for transports that publish all frames of a send at once.</summary>
/// <remarks>
/// A receiver drops numbers that do not rise, so what any one of them gets must rise over all frames. A frame to all nodes therefore parts the frames
/// before it from those behind; between two such frames each node has one.
/// </remarks>
public static class FramePlan
{
    /// <summary>Plans the frames of one send, in the order in which they must be published.</summary>
    /// <param name="batches">The batches of the send.</param>
    /// <param name="maxFrameBytes">The most bytes in a frame. A single batch that takes more has a frame of its own, for the transport to refuse.</param>
    /// <param name="destinationNode">When given, the node that all output goes to; see <see cref="FrameDestination.Of"/>.</param>
    public static IReadOnlyList<PlannedFrame> Make(ReadOnlyMemory<MessageBatch> batches, int maxFrameBytes, int? destinationNode)
    {
        if (batches.IsEmpty)
            return [];
        var destination = FrameDestination.Of(batches.Span[0].Handle, destinationNode);
        return FitsOneFrame(batches.Span, destination, maxFrameBytes, destinationNode)
            ? [new PlannedFrame(destination, batches)]
            : Split(batches.Span, maxFrameBytes, destinationNode);
    }

    private static bool FitsOneFrame(ReadOnlySpan<MessageBatch> batches, FrameDestination destination, int maxFrameBytes, int? destinationNode)
    {
        var producer = batches[0].Producer;
        var bytes = 0L;
        foreach (var batch in batches)
        {
            bytes += FrameWriter.Measure([batch]);
            if (batch.Producer != producer || bytes > maxFrameBytes || FrameDestination.Of(batch.Handle, destinationNode) != destination)
                return false;
        }

        return true;
    }

    private static List<PlannedFrame> Split(ReadOnlySpan<MessageBatch> batches, int maxFrameBytes, int? destinationNode)
    {
        var frames = new List<PlannedFrame>();
        for (var place = 0; place < batches.Length; place++)
        {
            var batch = batches[place];
            var bytes = FrameWriter.Measure([batch]);
            var destination = FrameDestination.Of(batch.Handle, destinationNode);
            var frame = FindOpen(frames, destination);
            if (frame is null || frame.Producer != batch.Producer || frame.Bytes + bytes > maxFrameBytes)
            {
                frame = new PlannedFrame(destination);
                frames.Add(frame);
            }

            frame.Add(batch, place, bytes);
        }

        return frames;
    }

    // The last frame that shares a receiver with the destination: only it may still grow, and only when it goes to just there.
    private static PlannedFrame? FindOpen(List<PlannedFrame> frames, FrameDestination destination)
    {
        for (var index = frames.Count - 1; index >= 0; index--)
        {
            if (frames[index].Destination.Shares(destination))
                return frames[index].Destination == destination ? frames[index] : null;
        }

        return null;
    }
}
