using BatchKit.Transports;

namespace BatchKit.Fuzz.Targets;

/// <summary>A frame is read or refused, and each message of what was read lies within its batch.</summary>
internal static class FrameTarget
{
    private static readonly FrameLimits Limits = new() { MaxFrameBytes = 64 * 1024, MaxDecodedBytes = 256 * 1024 };

    public static void Run(byte[] input)
    {
        try
        {
            using var frame = FrameReader.Read(input, Limits);
            foreach (var batch in frame.Batches.Span)
                Check(batch);
        }
        catch (FrameFormatException)
        {
            // The one answer to what is no frame.
        }
    }

    private static void Check(MessageBatch batch)
    {
        var bytes = 0;
        for (var index = 0; index < batch.Count; index++)
            bytes += batch[index].Payload.Length;
        FuzzTarget.Require(bytes == batch.Payload.Length, "the messages of a batch are its payload");
        FuzzTarget.Require(!batch.HasHeaders || batch.Headers.Length == batch.Count, "a batch with headers has one for each message");
    }
}
