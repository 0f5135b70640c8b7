using BatchKit.Transports;

namespace BatchKit.Postgres.Schema;

/// <summary>A message's header as a row keeps it: a frame with one empty message, so that there is one format of headers.</summary>
internal static class StoredHeader
{
    // Nobody reads it back: the row says which queue it is in.
    private static readonly OutputHandle Handle = OutputHandle.Connection(number: 1);

    public static byte[] Write(MessageHeader header)
    {
        using var frame = PooledFrame.Encode([MessageBatch.Create(Handle, producer: default, number: 1, new BatchMessage(ReadOnlyMemory<byte>.Empty, header))]);
        return frame.Bytes.ToArray();
    }

    /// <exception cref="FrameFormatException">The bytes are no header of a known version.</exception>
    public static MessageHeader? Read(ReadOnlyMemory<byte> stored)
    {
        using var frame = FrameReader.Read(stored);
        return frame.Batches.Span[0][0].Header;
    }
}
