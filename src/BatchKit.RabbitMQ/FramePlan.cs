using BatchKit.Transports;

namespace BatchKit.RabbitMQ;

/// <summary>Shares a send's batches out among as few frames as keep every queue's order.</summary>
/// <remarks>
/// A receiver drops numbers that do not rise, so what any one queue gets must rise over all frames. A frame to all nodes therefore parts the frames
/// before it from those behind; between two such frames each node has one.
/// </remarks>
internal static class FramePlan
{
    public static List<PlannedFrame> Make(ReadOnlyMemory<MessageBatch> batches, RabbitMqOptions options)
    {
        var first = batches.Span[0];
        var destination = FrameDestination.Of(first.Handle, options.DestinationNode);
        return FitsOneFrame(batches.Span, destination, options)
            ? [new PlannedFrame(destination, batches)]
            : Split(batches.Span, options);
    }

    private static bool FitsOneFrame(ReadOnlySpan<MessageBatch> batches, FrameDestination destination, RabbitMqOptions options)
    {
        var producer = batches[0].Producer;
        var bytes = 0L;
        foreach (var batch in batches)
        {
            bytes += FrameWriter.Measure([batch]);
            if (batch.Producer != producer || bytes > options.MaxFrameBytes || FrameDestination.Of(batch.Handle, options.DestinationNode) != destination)
                return false;
        }

        return true;
    }

    private static List<PlannedFrame> Split(ReadOnlySpan<MessageBatch> batches, RabbitMqOptions options)
    {
        var frames = new List<PlannedFrame>();
        for (var place = 0; place < batches.Length; place++)
        {
            var batch = batches[place];
            var bytes = FrameWriter.Measure([batch]);
            var destination = FrameDestination.Of(batch.Handle, options.DestinationNode);
            var frame = FindOpen(frames, destination);
            if (frame is null || frame.Producer != batch.Producer || frame.Bytes + bytes > options.MaxFrameBytes)
            {
                frame = new PlannedFrame(destination);
                frames.Add(frame);
            }

            frame.Add(batch, place, bytes);
        }

        return frames;
    }

    // The last frame that shares a queue with the destination: only it may still grow, and only when it goes to just there.
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
