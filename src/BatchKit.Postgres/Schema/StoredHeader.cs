using BatchKit.Transports;

namespace BatchKit.Postgres.Schema;

/// <summary>Encodes a message's header for a row, as a frame with one empty message, so that headers have only one format.</summary>
internal static class StoredHeader
{
    // The magic of a frame, and then its version.
    private const int VersionAt = 3;

    // No one reads the handle: the row says which queue it belongs to.
    private static readonly OutputHandle Handle = OutputHandle.Connection(number: 1);

    private static readonly byte[] Known = Write(new MessageHeader { Key = "version" });

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

    /// <summary>Reads the header of a claimed row, if it has one.</summary>
    /// <param name="stored">The header; null for a plain message.</param>
    /// <param name="fault">Why it can't be read; null when it can.</param>
    public static MessageHeader? Read(byte[]? stored, out string? fault)
    {
        fault = null;
        try
        {
            return stored is null ? null : Read(stored.AsMemory());
        }
        catch (FrameFormatException exception)
        {
            fault = exception.Message;
            return null;
        }
    }

    /// <summary>Keeps a message whose header can't be read from the handler: one of a newer version goes back, for a process that can read it, and one that no version can read is given up.</summary>
    public static void Withhold(QueueMessage message, ReadOnlySpan<byte> stored, string fault, TimeSpan delay)
    {
        if (IsNewer(stored))
            message.Withhold(delay);
        else
            message.Withhold($"Its header can't be read: {fault}");
    }

    /// <summary>True for a frame of a later version than this process writes, which a later version of this package can read.</summary>
    public static bool IsNewer(ReadOnlySpan<byte> frame) =>
        frame.Length > VersionAt && frame[..VersionAt].SequenceEqual(Known.AsSpan(0, VersionAt)) && frame[VersionAt] > Known[VersionAt];
}
