using System.Buffers;
using System.Buffers.Binary;
using System.Diagnostics;
using System.Text;

namespace BatchKit.Transports;

/// <summary>Encodes batches as a frame, which <see cref="FrameReader"/> reads on the far side of a broker.</summary>
public static class FrameWriter
{
    /// <summary>
    /// What a transport leaves of a frame for the frame's own fields, a trace and a signature: 1,024 bytes, of which this version of the format needs fewer than 150. Its largest frame less these is its
    /// <see cref="IBatchTransport.MaxBatchBytes"/>.
    /// </summary>
    public const int OverheadBytes = 1024;

    /// <summary>What a header takes that is the same object as the header directly before: nothing, because that one counts it, or a gap and a shared header's number, each of one byte.</summary>
    internal const int RepeatedHeaderBytes = 2;

    /// <summary>The most bytes that a frame of these batches takes; the frame may be smaller.</summary>
    /// <param name="batches">The batches of the frame.</param>
    /// <exception cref="ArgumentException">It may take more than <see cref="Array.MaxLength"/> bytes.</exception>
    public static int Measure(ReadOnlySpan<MessageBatch> batches)
    {
        long total = FrameFormat.MaxPrologueBytes;
        foreach (var batch in batches)
            total += Measure(batch);
        if (total > Array.MaxLength)
            throw new ArgumentException($"A frame of up to {total} bytes is more than an array holds ({Array.MaxLength}).", nameof(batches));
        return (int)total;
    }

    /// <summary>Writes one frame.</summary>
    /// <param name="output">Gets the frame, contiguous.</param>
    /// <param name="batches">At least one; all of one producer, with rising numbers.</param>
    /// <exception cref="ArgumentException">There are no batches, a batch has no handle, or they have several producers or numbers that do not rise from 1.</exception>
    public static void Write(IBufferWriter<byte> output, ReadOnlySpan<MessageBatch> batches)
    {
        ArgumentNullException.ThrowIfNull(output);
        Write(output, batches, trace: default);
    }

    internal static void Write(IBufferWriter<byte> output, ReadOnlySpan<MessageBatch> batches, ActivityContext trace) =>
        output.Advance(Write(output.GetSpan(Measure(batches) + TraceBytes(trace)), batches, trace));

    /// <summary>What the trace adds to a frame.</summary>
    internal static int TraceBytes(ActivityContext trace) => trace == default ? 0 : FrameFormat.TraceBytes;

    /// <summary>Writes one frame into memory that is large enough, as <see cref="Measure(ReadOnlySpan{MessageBatch})"/> and <see cref="TraceBytes"/> say.</summary>
    /// <returns>How many bytes it took.</returns>
    internal static int Write(Span<byte> target, ReadOnlySpan<MessageBatch> batches, ActivityContext trace = default)
    {
        if (batches.IsEmpty)
            throw new ArgumentException("A frame has at least one batch.", nameof(batches));
        var producer = batches[0].Producer;
        var position = WritePrologue(target, producer, batches.Length);
        var lastNumber = 0L;
        var headers = new HeaderWriter();
        var handles = default(KnownHandles);
        try
        {
            foreach (var batch in batches)
            {
                if (batch.Producer != producer || batch.Number <= lastNumber || batch.Handle.IsNone)
                    throw new ArgumentException("The batches of a frame have handles, one producer, and numbers that rise from 1.", nameof(batches));
                var known = handles.Find(batch.Handle);
                position = known > 0 && batch.Count == 1 && batch.Number == lastNumber + 1 && batch.LatestMessages.IsEmpty
                    ? WriteShortBatch(target, position, batch, known, ref headers)
                    : WriteBatch(target, position, batch, known, trace, ref headers);
                // A frame of one batch refers to no handle.
                if (known == 0 && batches.Length > 1)
                    handles.Add(batch.Handle);
                lastNumber = batch.Number;
                trace = default;
            }
        }
        finally
        {
            headers.Dispose();
            handles.Dispose();
        }

        return position;
    }

    private static long Measure(MessageBatch batch)
    {
        var name = batch.Handle.Name;
        long total = FrameFormat.MaxBatchPrologueBytes + batch.Payload.Length;
        // No message is longer than the payload, so one length bounds them all without a look at each.
        total += (long)batch.Count * VarintWriter.SizeOf((uint)batch.Payload.Length);
        total += (long)batch.LatestMessages.Length * FrameFormat.MaxLatestBytes;
        if (name is not null)
            total += VarintWriter.MaxTextBytes(name);
        MessageHeader? before = null;
        foreach (var header in batch.Headers)
        {
            if (header is not null)
                total += header == before ? RepeatedHeaderBytes : header.EncodedBytes;
            before = header;
        }

        return total;
    }

    private static int WritePrologue(Span<byte> target, ProducerId producer, int batches)
    {
        FrameFormat.Magic.CopyTo(target);
        target[FrameFormat.Magic.Length] = FrameFormat.Version;
        var position = VarintWriter.Write(target, FrameFormat.Magic.Length + 1, (uint)producer.Node);
        BinaryPrimitives.WriteInt64LittleEndian(target[position..], producer.Epoch);
        position = VarintWriter.Write(target, position + FrameFormat.EpochBytes, (uint)producer.Partition);
        return VarintWriter.Write(target, position, (uint)batches);
    }

    private static int WriteBatch(Span<byte> target, int position, MessageBatch batch, int known, ActivityContext trace, ref HeaderWriter headers)
    {
        var name = batch.Handle.Name;
        target[position++] = (byte)((batch.HasHeaders ? FrameFormat.HeadersFlag : 0)
            | (trace == default ? 0 : FrameFormat.TraceFlag)
            | (batch.LatestMessages.IsEmpty ? 0 : FrameFormat.LatestFlag)
            | (known > 0 ? FrameFormat.KnownHandleFlag : name is not null ? FrameFormat.NamedFlag : 0));
        if (trace != default)
            position = WriteTrace(target, position, trace);
        position = VarintWriter.Write(target, position, (ulong)batch.Number);
        if (known > 0)
            target[position++] = (byte)known;
        else if (name is null)
            position = VarintWriter.Write(target, position, (ulong)batch.Handle.Number);
        else
            position = VarintWriter.WriteText(target, position, name);
        position = VarintWriter.Write(target, position, (uint)batch.Count);
        position = VarintWriter.Write(target, position, (uint)batch.Payload.Length);
        position = WriteLengths(target, position, batch.MessageEnds);
        if (batch.HasHeaders)
            position = headers.WriteAll(target, position, batch.Headers);
        if (!batch.LatestMessages.IsEmpty)
            position = WriteLatest(target, position, batch.LatestMessages);
        batch.Payload.Span.CopyTo(target[position..]);
        return position + batch.Payload.Length;
    }

    private static int WriteLatest(Span<byte> target, int position, ReadOnlySpan<LatestMessage> latest)
    {
        position = VarintWriter.Write(target, position, (uint)latest.Length);
        var next = 0;
        foreach (var (index, key) in latest)
        {
            position = VarintWriter.Write(target, position, (uint)(index - next));
            BinaryPrimitives.WriteInt64LittleEndian(target[position..], key);
            (position, next) = (position + sizeof(long), index + 1);
        }

        return position;
    }

    // What several handles write in turn is a batch for each message, so such a batch takes little more than its message would in a batch of many.
    private static int WriteShortBatch(Span<byte> target, int position, MessageBatch batch, int known, ref HeaderWriter headers)
    {
        target[position++] = (byte)(FrameFormat.ShortBatch | (batch.HasHeaders ? FrameFormat.ShortHeadersFlag : 0) | known);
        position = VarintWriter.Write(target, position, (uint)batch.Payload.Length);
        if (batch.HasHeaders)
            position = headers.WriteAll(target, position, batch.Headers);
        batch.Payload.Span.CopyTo(target[position..]);
        return position + batch.Payload.Length;
    }

    private static int WriteTrace(Span<byte> target, int position, ActivityContext trace)
    {
        trace.TraceId.CopyTo(target.Slice(position, FrameFormat.TraceIdBytes));
        position += FrameFormat.TraceIdBytes;
        trace.SpanId.CopyTo(target.Slice(position, FrameFormat.SpanIdBytes));
        position += FrameFormat.SpanIdBytes;
        target[position++] = (byte)trace.TraceFlags;
        return position;
    }

    private static int WriteLengths(Span<byte> target, int position, ReadOnlySpan<int> ends)
    {
        var start = 0;
        foreach (var end in ends)
        {
            var length = (uint)(end - start);
            start = end;
            if (length <= VarintWriter.MaxOneByteValue)
                target[position++] = (byte)length;
            else
                position = VarintWriter.Write(target, position, length);
        }

        return position;
    }
}

/// <summary>An encoded frame in rented memory, for transports that publish it as one block.</summary>
/// <remarks>The caller of <see cref="Encode"/> owns it: dispose it when no one reads <see cref="Bytes"/> any more. One thread at a time.</remarks>
public sealed class PooledFrame : IDisposable
{
    private byte[] _array;
    private int _length;

    private PooledFrame(byte[] array, int length)
    {
        _array = array;
        _length = length;
    }

    /// <summary>The frame, valid until it is disposed; empty afterwards.</summary>
    public ReadOnlyMemory<byte> Bytes => _array.AsMemory(0, _length);

    /// <summary>Encodes batches, as <see cref="FrameWriter.Write(IBufferWriter{byte}, ReadOnlySpan{MessageBatch})"/> does.</summary>
    /// <param name="batches">At least one; all of one producer, with rising numbers.</param>
    /// <param name="signer">Signs the frame; null for none.</param>
    /// <param name="trace">The span that the frame's receiver continues; none by default. <see cref="PlannedFrame.Encode"/> takes that of the send.</param>
    /// <param name="destination">Where a signed frame is valid; at all nodes when null.</param>
    /// <inheritdoc cref="FrameWriter.Write(IBufferWriter{byte}, ReadOnlySpan{MessageBatch})" path="/exception"/>
    public static PooledFrame Encode(ReadOnlySpan<MessageBatch> batches, FrameSigner? signer = null, ActivityContext trace = default, FrameDestination? destination = null)
    {
        var start = signer is null ? 0 : FrameSigner.OverheadBytes;
        var array = ArrayPool<byte>.Shared.Rent(start + FrameWriter.Measure(batches) + FrameWriter.TraceBytes(trace));
        try
        {
            var length = start + FrameWriter.Write(array.AsSpan(start), batches, trace);
            signer?.Sign(array.AsSpan(0, length), destination ?? FrameDestination.All);
            return new PooledFrame(array, length);
        }
        catch
        {
            ArrayPool<byte>.Shared.Return(array);
            throw;
        }
    }

    /// <summary>Returns the memory to the pool; later calls do nothing.</summary>
    public void Dispose()
    {
        if (_array.Length > 0)
            ArrayPool<byte>.Shared.Return(_array);
        _array = [];
        _length = 0;
    }
}

/// <summary>Writes numbers and texts of a frame into a span that is long enough, and returns the position behind.</summary>
internal static class VarintWriter
{
    public const byte MaxOneByteValue = 0x7F;

    public static int SizeOf(uint value)
    {
        var size = 1;
        while ((value >>= 7) != 0)
            size++;
        return size;
    }

    // Three bytes are the most that UTF-8 needs for a UTF-16 unit.
    public static long MaxTextBytes(string text) => FrameFormat.MaxVarint32Bytes + (3L * text.Length);

    public static int Write(Span<byte> target, int position, ulong value)
    {
        while (value > MaxOneByteValue)
        {
            target[position++] = (byte)(value | 0x80);
            value >>= 7;
        }

        target[position++] = (byte)value;
        return position;
    }

    public static int WriteText(Span<byte> target, int position, string text)
    {
        var bytes = Encoding.UTF8.GetByteCount(text);
        if (bytes > MessageHeader.MaxTextBytes)
            throw new ArgumentException($"A text of a frame has at most {nameof(MessageHeader.MaxTextBytes)} ({MessageHeader.MaxTextBytes}) bytes.", nameof(text));
        position = Write(target, position, (uint)bytes);
        return position + Encoding.UTF8.GetBytes(text, target[position..]);
    }
}
