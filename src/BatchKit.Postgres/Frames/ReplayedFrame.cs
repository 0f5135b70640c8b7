using System.Buffers.Binary;
using System.Security.Cryptography;
using BatchKit.Postgres.Schema;
using BatchKit.Transports;

namespace BatchKit.Postgres.Frames;

/// <summary>Gives a replayed frame another producer, so that no one who has later frames of its first one drops it as a repeat.</summary>
/// <remarks>
/// The replay marks its row: the row gets a stored header without a header, which has a drawn number as its message. It is the same in each attempt to handle the frame, so that a repeated attempt is a repeat,
/// and another one in each replay. Only the partition changes, because by node and epoch a process knows what it has delivered itself.
/// </remarks>
internal static class ReplayedFrame
{
    private const int DrawnBytes = sizeof(int);

    /// <summary>The bytes in front of the drawn number, which all marks share.</summary>
    public static readonly int SharedBytes = DrawMark().Length - DrawnBytes;

    /// <summary>Draws the mark of a replay.</summary>
    public static byte[] DrawMark()
    {
        var drawn = new byte[DrawnBytes];
        BinaryPrimitives.WriteInt32LittleEndian(drawn, RandomNumberGenerator.GetInt32(1, int.MaxValue));
        return StoredHeader.Write(header: null, message: drawn);
    }

    /// <summary>True for a message that was replayed, and had no header.</summary>
    public static bool Is(QueueMessage message) => FindDrawn(message) > 0;

    /// <summary>Returns the frame of a row, with another producer if it was replayed. What is signed, or no frame, is returned as it is.</summary>
    /// <exception cref="FrameFormatException">A replayed frame is malformed.</exception>
    public static ReadOnlyMemory<byte> Read(QueueMessage message)
    {
        var drawn = FindDrawn(message);
        if (drawn == 0 || !StoredHeader.IsFrame(message.Payload.Span))
            return message.Payload;
        using var stored = FrameReader.Read(message.Payload);
        var producer = stored.Producer with { Partition = stored.Producer.Partition ^ drawn };
        MessageBatch[] batches = [.. stored.Batches.ToArray().Select(batch => MessageBatch.Create(batch.Handle, producer, batch.Number, [.. batch]))];
        using var frame = PooledFrame.Encode(batches, signer: null, stored.Trace);
        return frame.Bytes.ToArray();
    }

    private static int FindDrawn(QueueMessage message)
    {
        if (message.StoredHeader is null)
            return 0;
        using var header = FrameReader.Read(message.StoredHeader);
        var drawn = header.Batches.Span[0].Payload;
        return drawn.Length == DrawnBytes ? BinaryPrimitives.ReadInt32LittleEndian(drawn.Span) : 0;
    }
}
