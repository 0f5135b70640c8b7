using System.Buffers;
using System.Diagnostics;

namespace BatchKit.Transports;

/// <summary>Reads frames that <see cref="FrameWriter"/> wrote, in this version or the one before. Whatever the bytes are, it returns a frame or throws <see cref="FrameFormatException"/>.</summary>
public static class FrameReader
{
    // Counted before a batch is created: its object takes 112 bytes, and its references in the array that grows by doubling at most 56.
    // The objects of the frame itself take 64, once.
    private const int BatchBytes = 256;
    private const int HandleBytes = 16;
    private const int LatestBytes = 16;
    // A short batch: its first byte, and bytes of payload.
    private const int LeastBatchBytes = 2;

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
        var headers = new HeaderReader(ReadVersion(ref cursor));
        var handles = default(KnownHandles);
        try
        {
            received.Begin(ReadProducer(ref cursor));
            ReadBatches(ref cursor, frame, limits, received, names, ref headers, ref handles);
        }
        finally
        {
            headers.Dispose();
            handles.Dispose();
        }

        if (cursor.Remaining > 0)
            FrameCursor.Refuse($"The frame has {cursor.Remaining} bytes behind its last batch.");
    }

    private static void ReadBatches(
        ref FrameCursor cursor, ReadOnlyMemory<byte> frame, FrameLimits limits, FrameBatches received, HandleNames? names, ref HeaderReader headers, ref KnownHandles handles)
    {
        var batches = cursor.ReadCount(LeastBatchBytes, "batches");
        if (batches < 1 || batches > limits.MaxBatches)
            FrameCursor.Refuse($"The frame has {batches} batches, not from 1 to {nameof(FrameLimits.MaxBatches)} ({limits.MaxBatches}).");
        var messagesLeft = limits.MaxMessages;
        var number = 0L;
        for (var index = 0; index < batches; index++)
        {
            cursor.Spend(BatchBytes);
            if (number == long.MaxValue)
                FrameCursor.Refuse("The frame has a batch behind the one with the highest number.");
            var batch = received.Add();
            var flags = cursor.ReadByte();
            var isShort = (flags & FrameFormat.ShortBatch) != 0;
            if (!isShort && (flags & ~FrameFormat.KnownBatchFlags) != 0)
                FrameCursor.Refuse("A batch in the frame has a flag that this version does not know.");
            if (!isShort && (flags & FrameFormat.TraceFlag) != 0)
                received.Trace = ReadTrace(ref cursor, index);
            number = isShort ? number + 1 : cursor.ReadNumber(number + 1, long.MaxValue, "batch number");
            batch.Identify(received.Producer, number);
            if (isShort)
            {
                ReadShortBatch(ref cursor, frame, flags, batch, messagesLeft, handles, ref headers);
            }
            else
            {
                var handle = ReadHandle(ref cursor, flags, names, ref handles, mayBeKnownLater: batches > 1);
                ReadLongBatch(ref cursor, frame, flags, batch, messagesLeft, handle, ref headers);
            }

            messagesLeft -= batch.Count;
        }
    }

    private static byte ReadVersion(ref FrameCursor cursor)
    {
        var magic = cursor.ReadBytes(FrameFormat.Magic.Length);
        if (!magic.SequenceEqual(FrameFormat.Magic))
            FrameCursor.Refuse(FrameSigner.IsSigned(magic) ? "The frame is signed, and this reader has no keys. Give it the sender's FrameKeys." : "The bytes are not a frame: they do not begin as one. Check what else publishes there.");
        var version = cursor.ReadByte();
        if (version is < FrameFormat.FirstVersion or > FrameFormat.Version)
            FrameCursor.Refuse($"The frame has version {version}; this reader knows versions {FrameFormat.FirstVersion} to {FrameFormat.Version}.");
        return version;
    }

    private static ProducerId ReadProducer(ref FrameCursor cursor)
    {
        var node = (int)cursor.ReadNumber(0, OutputHandle.MaxNode, "node");
        var epoch = cursor.ReadInt64();
        var partition = (int)cursor.ReadNumber(0, int.MaxValue, "partition");
        return new ProducerId(node, epoch, partition);
    }

    private static void ReadLongBatch(ref FrameCursor cursor, ReadOnlyMemory<byte> frame, byte flags, ReceivedBatch batch, int maxMessages, OutputHandle handle, ref HeaderReader reader)
    {
        var count = ReadCount(ref cursor, maxMessages, out var payloadBytes);
        var ends = ReadEnds(ref cursor, batch, count, payloadBytes);
        var headers = (flags & FrameFormat.HeadersFlag) != 0 ? ReadHeaders(ref cursor, batch, count, ref reader) : null;
        if ((flags & FrameFormat.LatestFlag) != 0)
            ReadLatest(ref cursor, batch, count);
        batch.Assign(handle, ReadPayload(ref cursor, frame, payloadBytes), ends, headers, count);
    }

    private static void ReadLatest(ref FrameCursor cursor, ReceivedBatch batch, int messages)
    {
        var count = cursor.ReadCount(leastBytesEach: 1 + sizeof(long), "latest values");
        if (count < 1 || count > messages)
            FrameCursor.Refuse($"A batch in the frame has {count} latest values, not from 1 to its {messages} messages.");
        cursor.SpendRented(count, LatestBytes);
        var latest = ArrayPool<LatestMessage>.Shared.Rent(count);
        // Released with the batch, whatever follows.
        batch.AssignLatest(latest, count);
        var next = 0;
        for (var value = 0; value < count; value++)
        {
            next += (int)cursor.ReadNumber(0, messages - 1 - next, "messages before a latest value");
            latest[value] = new LatestMessage(next++, cursor.ReadInt64());
            if (next == messages && value < count - 1)
                FrameCursor.Refuse("A batch in the frame has a latest value behind its last message.");
        }
    }

    private static void ReadShortBatch(
        ref FrameCursor cursor, ReadOnlyMemory<byte> frame, byte flags, ReceivedBatch batch, int maxMessages, in KnownHandles handles, ref HeaderReader reader)
    {
        if (maxMessages < 1)
            FrameCursor.Refuse($"The frame has more messages than {nameof(FrameLimits.MaxMessages)} allows.");
        var handle = GetKnown(handles, flags & FrameFormat.ShortHandleMask);
        var payloadBytes = cursor.ReadCount(leastBytesEach: 1, "bytes of payload");
        cursor.SpendRented(1, sizeof(int));
        var ends = batch.RentEnds(1);
        ends[0] = payloadBytes;
        var headers = (flags & FrameFormat.ShortHeadersFlag) != 0 ? ReadHeaders(ref cursor, batch, count: 1, ref reader) : null;
        batch.Assign(handle, ReadPayload(ref cursor, frame, payloadBytes), ends, headers, count: 1);
    }

    private static OutputHandle GetKnown(in KnownHandles handles, int number)
    {
        if (number < 1 || number > handles.Count)
            FrameCursor.Refuse("A batch in the frame has a handle that the frame does not hold.");
        return handles[number];
    }

    private static ActivityContext ReadTrace(ref FrameCursor cursor, int batch)
    {
        if (batch > 0)
            FrameCursor.Refuse("The frame has a trace behind its first batch.");
        var traceId = cursor.ReadBytes(FrameFormat.TraceIdBytes);
        var spanId = cursor.ReadBytes(FrameFormat.SpanIdBytes);
        if (!traceId.ContainsAnyExcept((byte)0) || !spanId.ContainsAnyExcept((byte)0))
            FrameCursor.Refuse("The frame has a trace without an id.");
        // Later versions of W3C trace context may set other flags, which say nothing to this one.
        var flags = (ActivityTraceFlags)cursor.ReadByte() & ActivityTraceFlags.Recorded;
        return new ActivityContext(ActivityTraceId.CreateFromBytes(traceId), ActivitySpanId.CreateFromBytes(spanId), flags, traceState: null, isRemote: true);
    }

    private static OutputHandle ReadHandle(ref FrameCursor cursor, byte flags, HandleNames? names, ref KnownHandles handles, bool mayBeKnownLater)
    {
        if ((flags & FrameFormat.KnownHandleFlag) != 0)
            return GetKnown(handles, cursor.ReadByte());
        var handle = ReadHandle(ref cursor, (flags & FrameFormat.NamedFlag) != 0, names);
        if (!mayBeKnownLater)
            return handle;
        if (handles.Count == 0)
            cursor.SpendRented(FrameFormat.MaxKnownHandles, HandleBytes + sizeof(long));
        handles.Add(handle);
        return handle;
    }

    private static OutputHandle ReadHandle(ref FrameCursor cursor, bool isNamed, HandleNames? names)
    {
        if (!isNamed)
            return OutputHandle.Connection(cursor.ReadNumber(1, long.MaxValue, "connection number"));
        var name = cursor.ReadTextBytes();
        if (name.IsEmpty)
            FrameCursor.Refuse("A named handle in the frame has no name.");
        return names is null ? HandleNames.Create(name, ref cursor) : names.GetOrAdd(name, ref cursor);
    }

    private static int ReadCount(ref FrameCursor cursor, int maxMessages, out int payloadBytes)
    {
        var count = cursor.ReadCount(leastBytesEach: 1, "messages");
        if (count < 1 || count > maxMessages)
            FrameCursor.Refuse($"A batch in the frame has {count} messages, not from 1 to the {maxMessages} that {nameof(FrameLimits.MaxMessages)} leaves.");
        payloadBytes = cursor.ReadCount(leastBytesEach: 1, "bytes of payload");
        // Each message has a byte of length before the payload, so the count cannot ask for more than the frame holds.
        if (count > cursor.Remaining - payloadBytes)
            FrameCursor.Refuse("A batch in the frame is too short for its messages' lengths.");
        return count;
    }

    private static int[] ReadEnds(ref FrameCursor cursor, ReceivedBatch batch, int count, int payloadBytes)
    {
        cursor.SpendRented(count, sizeof(int));
        var ends = batch.RentEnds(count);
        cursor.ReadEnds(ends.AsSpan(0, count), payloadBytes);
        return ends;
    }

    private static MessageHeader?[] ReadHeaders(ref FrameCursor cursor, ReceivedBatch batch, int count, ref HeaderReader reader)
    {
        cursor.SpendRented(count, nint.Size);
        var headers = batch.RentHeaders(count);
        reader.ReadAll(ref cursor, headers.AsSpan(0, count));
        return headers;
    }

    private static ReadOnlyMemory<byte> ReadPayload(ref FrameCursor cursor, ReadOnlyMemory<byte> frame, int payloadBytes)
    {
        var start = cursor.Position;
        cursor.ReadBytes(payloadBytes);
        return frame.Slice(start, payloadBytes);
    }
}

/// <summary>The batches of one frame. Their payloads are the frame's own bytes, so they are valid as long as those are, and until this is disposed.</summary>
/// <remarks>Disposing gives its arrays back to the pool; the batches must not be used after that. One thread at a time.</remarks>
public sealed class ReceivedFrame : IDisposable
{
    private readonly FrameBatches _batches;

    internal ReceivedFrame(FrameBatches batches) => _batches = batches;

    /// <summary>Who numbered the batches.</summary>
    public ProducerId Producer => _batches.Producer;

    /// <summary>The span of the send that the frame carries; the default when it carries none.</summary>
    public ActivityContext Trace => _batches.Trace;

    /// <summary>The batches, at least one, with rising numbers; empty once disposed.</summary>
    public ReadOnlyMemory<MessageBatch> Batches => _batches.Batches;

    /// <inheritdoc/>
    public void Dispose() => _batches.Release();
}

/// <summary>The batches that were read from a frame, with the arrays rented for them. When reused, it keeps what is small from frame to frame.</summary>
internal sealed class FrameBatches(bool isReused)
{
    // As many batches as a send has by default.
    private const int MaxKept = 4096;

    private MessageBatch[] _batches = [];
    private int _count;

    public ProducerId Producer { get; private set; }

    /// <summary>The span of the send; the default when the frame has none.</summary>
    public ActivityContext Trace { get; set; }

    public ReadOnlyMemory<MessageBatch> Batches => _batches.AsMemory(0, _count);

    public void Begin(ProducerId producer) => (Producer, Trace) = (producer, default);

    public ReceivedBatch Add()
    {
        if (_count == _batches.Length)
            Array.Resize(ref _batches, Math.Max(4, _count * 2));
        var batch = (ReceivedBatch)(_batches[_count] ??= new ReceivedBatch());
        _count++;
        return batch;
    }

    public void Release()
    {
        for (var index = 0; index < _count; index++)
            ((ReceivedBatch)_batches[index]).Release(keepSmall: isReused && _batches.Length <= MaxKept);
        _count = 0;
        if (!isReused || _batches.Length > MaxKept)
            _batches = [];
    }
}
