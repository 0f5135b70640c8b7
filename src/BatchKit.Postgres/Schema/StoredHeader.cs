using System.Diagnostics;
using BatchKit.Diagnostics;
using BatchKit.Transports;

namespace BatchKit.Postgres.Schema;

/// <summary>Encodes a message's header and the trace of its send for a row, as a frame with one empty message, so that headers have only one format.</summary>
internal static class StoredHeader
{
    // The magic of a frame, and then its version.
    private const int VersionAt = 3;

    // No one reads the handle, because the row contains its queue.
    private static readonly OutputHandle Handle = OutputHandle.Connection(number: 1);

    private static readonly byte[] Known = Write(new MessageHeader { Key = "version" });

    public static byte[] Write(MessageHeader? header, ActivityContext trace = default, ReadOnlyMemory<byte> message = default)
    {
        using var frame = PooledFrame.Encode([MessageBatch.Create(Handle, producer: default, number: 1, new BatchMessage(message, header))], signer: null, trace);
        return frame.Bytes.ToArray();
    }

    /// <exception cref="FrameFormatException">The bytes are not a header of a known version.</exception>
    public static MessageHeader? Read(ReadOnlyMemory<byte> stored) => Read(stored, out _);

    /// <summary>Reads the header of a claimed row, if it has one.</summary>
    /// <param name="stored">The header; null for a plain message.</param>
    /// <param name="trace">The span of the message's send; the default for none.</param>
    /// <param name="fault">Why it can't be read; null when it can.</param>
    public static MessageHeader? Read(byte[]? stored, out ActivityContext trace, out string? fault)
    {
        (trace, fault) = (default, null);
        try
        {
            return stored is null ? null : Read(stored.AsMemory(), out trace);
        }
        catch (FrameFormatException exception)
        {
            fault = FailureText.MessageOf(exception);
            return null;
        }
    }

    /// <summary>Keeps a message whose header can't be read from the handler. A message of a newer version returns to the queue, for a process that can read it; one that no version can read is given up.</summary>
    public static void Withhold(QueueMessage message, ReadOnlySpan<byte> stored, string fault, TimeSpan delay)
    {
        if (IsNewer(stored))
            message.Withhold(delay);
        else
            message.Withhold($"Its header can't be read: {fault}");
    }

    /// <summary>True for a frame of a later version than this process writes, which a later version of this package can read.</summary>
    public static bool IsNewer(ReadOnlySpan<byte> frame) =>
        IsFrame(frame) && frame[VersionAt] > Known[VersionAt];

    /// <summary>True for what begins as a frame that is not signed.</summary>
    public static bool IsFrame(ReadOnlySpan<byte> frame) => frame.Length > VersionAt && frame[..VersionAt].SequenceEqual(Known.AsSpan(0, VersionAt));

    private static MessageHeader? Read(ReadOnlyMemory<byte> stored, out ActivityContext trace)
    {
        using var frame = FrameReader.Read(stored);
        trace = frame.Trace;
        return frame.Batches.Span[0][0].Header;
    }
}
