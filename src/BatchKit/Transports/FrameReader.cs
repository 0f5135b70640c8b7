namespace BatchKit.Transports;

/// <summary>Reads frames that <see cref="FrameWriter"/> wrote. Whatever the bytes are, it gives a frame or throws <see cref="FrameFormatException"/>.</summary>
public static class FrameReader
{
    // What an object with its references takes, generously, counted before it is made.
    private const int BatchBytes = 128;
    // Flags, number, handle, count of messages, bytes of payload, and one message's length.
    private const int LeastBatchBytes = 6;

    /// <summary>Reads one frame without copying payloads.</summary>
    /// <param name="frame">The frame; it must stay unchanged until the result is disposed.</param>
    /// <param name="limits">What to refuse; the defaults of <see cref="FrameLimits"/> when null.</param>
    /// <returns>The batches, which the caller disposes.</returns>
    /// <exception cref="FrameFormatException">The bytes are no frame of a known version, or pass a limit.</exception>
    public static ReceivedFrame Read(ReadOnlyMemory<byte> frame, FrameLimits? limits = null)
    {
        var batches = new FrameBatches(isReused: false);
        Read(frame, limits ?? FrameLimits.Shared, batches, names: null);
        return new ReceivedFrame(batches);
    }

    /// <summary>Reads into batches that were released or never used; when it throws, they are released.</summary>
    internal static void Read(ReadOnlyMemory<byte> frame, FrameLimits limits, FrameBatches received, HandleNames? names)
    {
        if (frame.Length > limits.MaxFrameBytes)
            FrameCursor.Refuse($"The frame has {frame.Length} bytes, more than {nameof(FrameLimits.MaxFrameBytes)} ({limits.MaxFrameBytes}).");
        var isRead = false;
        try
        {
            ReadFrame(frame, limits, received, names);
            isRead = true;
        }
        finally
        {
            if (!isRead)
                received.Release();
        }
    }

    private static void ReadFrame(ReadOnlyMemory<byte> frame, FrameLimits limits, FrameBatches received, HandleNames? names)
    {
        var cursor = new FrameCursor(frame.Span, limits);
        var producer = ReadProducer(ref cursor);
        received.Begin(producer);
        var batches = cursor.ReadCount(LeastBatchBytes, "batches");
        if (batches < 1 || batches > limits.MaxBatches)
            FrameCursor.Refuse($"The frame has {batches} batches, not from 1 to {nameof(FrameLimits.MaxBatches)} ({limits.MaxBatches}).");
        var messagesLeft = limits.MaxMessages;
        var number = 0L;
        for (var index = 0; index < batches; index++)
        {
            cursor.Spend(BatchBytes);
            var batch = received.Add();
            var flags = ReadFlags(ref cursor);
            number = cursor.ReadNumber(number + 1, long.MaxValue, "batch number");
            var handle = ReadHandle(ref cursor, (flags & FrameFormat.NamedFlag) != 0, names);
            batch.Identify(producer, number);
            messagesLeft -= ReadMessages(ref cursor, batch, handle, (flags & FrameFormat.HeadersFlag) != 0, messagesLeft, frame);
        }

        if (cursor.Remaining > 0)
            FrameCursor.Refuse($"The frame has {cursor.Remaining} bytes behind its last batch.");
    }

    private static ProducerId ReadProducer(ref FrameCursor cursor)
    {
        if (!cursor.ReadBytes(FrameFormat.Magic.Length).SequenceEqual(FrameFormat.Magic))
            FrameCursor.Refuse("The bytes are not a frame: they do not begin as one.");
        var version = cursor.ReadByte();
        if (version != FrameFormat.Version)
            FrameCursor.Refuse($"The frame has version {version}; this reader knows version {FrameFormat.Version}.");
        var node = (int)cursor.ReadNumber(0, OutputHandle.MaxNode, "node");
        var epoch = cursor.ReadInt64();
        var lane = (int)cursor.ReadNumber(0, int.MaxValue, "lane");
        return new ProducerId(node, epoch, lane);
    }

    private static byte ReadFlags(ref FrameCursor cursor)
    {
        var flags = cursor.ReadByte();
        if ((flags & ~FrameFormat.KnownBatchFlags) != 0)
            FrameCursor.Refuse("A batch in the frame has a flag that this version does not know.");
        return flags;
    }

    private static OutputHandle ReadHandle(ref FrameCursor cursor, bool isNamed, HandleNames? names)
    {
        if (!isNamed)
            return OutputHandle.Connection(cursor.ReadNumber(1, long.MaxValue, "connection number"));
        var name = cursor.ReadTextBytes();
        if (name.IsEmpty)
            FrameCursor.Refuse("A named handle in the frame has no name.");
        return names is null ? HandleNames.Make(name, ref cursor) : names.Get(name, ref cursor);
    }

    private static int ReadMessages(ref FrameCursor cursor, ReceivedBatch batch, OutputHandle handle, bool hasHeaders, int maxMessages, ReadOnlyMemory<byte> frame)
    {
        var count = cursor.ReadCount(leastBytesEach: 1, "messages");
        if (count < 1 || count > maxMessages)
            FrameCursor.Refuse($"A batch in the frame has {count} messages, not from 1 to the {maxMessages} that {nameof(FrameLimits.MaxMessages)} leaves.");
        var payloadBytes = cursor.ReadCount(leastBytesEach: 1, "bytes of payload");
        // Each message has a byte of length before the payload, so the count cannot ask for more than the frame holds.
        if (count > cursor.Remaining - payloadBytes)
            FrameCursor.Refuse("A batch in the frame has no room for its messages' lengths.");
        cursor.SpendRented(count, sizeof(int));
        var ends = batch.RentEnds(count);
        cursor.ReadEnds(ends.AsSpan(0, count), payloadBytes);
        MessageHeader?[]? headers = null;
        if (hasHeaders)
        {
            cursor.SpendRented(count, nint.Size);
            headers = batch.RentHeaders(count);
            HeaderReader.ReadAll(ref cursor, headers.AsSpan(0, count));
        }

        var start = cursor.Position;
        cursor.ReadBytes(payloadBytes);
        batch.Assign(handle, frame.Slice(start, payloadBytes), ends, headers, count);
        return count;
    }
}
