using BatchKit.Transports;

namespace BatchKit.Postgres.Schema;

/// <summary>Encodes a message's header for a row, as a frame with one empty message, so that headers have only one format.</summary>
internal static class StoredHeader
{
    // No one reads the handle: the row says which queue it belongs to.
    private static readonly OutputHandle Handle = OutputHandle.Connection(number: 1);

    public static byte[] Write(MessageHeader header)
    {
        using var frame = PooledFrame.Encode([MessageBatch.Create(Handle, producer: default, number: 1, new BatchMessage(ReadOnlyMemory<byte>.Empty, header))]);
        return frame.Bytes.ToArray();
    }

    /// <exception cref="FrameFormatException">The bytes are not a header of a known version.</exception>
    public static MessageHeader? Read(ReadOnlyMemory<byte> stored)
    {
        using var frame = FrameReader.Read(stored);
        return frame.Batches.Span[0][0].Header;
    }
}
