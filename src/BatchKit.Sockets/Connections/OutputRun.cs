using System.Buffers;
using System.Numerics;
using System.Runtime.InteropServices;

namespace BatchKit.Broadcast.Connections;

/// <summary>Encoded messages for one connection, contiguous.</summary>
/// <param name="bytes">Their bytes.</param>
/// <param name="messages">The number of messages; zero for a protocol's own bytes, which are not counted.</param>
/// <param name="owner">The shared buffer that holds the bytes, so that a queue may keep them; null when a queue must copy them.</param>
/// <param name="offset">Where the bytes begin in the owner.</param>
internal readonly ref struct OutputRun(ReadOnlySpan<byte> bytes, int messages, SharedBuffer? owner = null, int offset = 0)
{
    public ReadOnlySpan<byte> Bytes { get; } = bytes;

    public int Messages { get; } = messages;

    public SharedBuffer? Owner { get; } = owner;

    public int Offset { get; } = offset;

    /// <summary>The latest values in it, in order; usually none.</summary>
    public ReadOnlySpan<LatestMark> Latest { get; init; }

    /// <summary>What has to be subtracted from the place of each of them.</summary>
    public LatestCut LatestOrigin { get; init; }

    /// <summary>What the counters count.</summary>
    public Amount Amount => Messages == 0 ? default : new Amount(Messages, Bytes.Length);

    /// <summary>The memory that it holds while it is queued.</summary>
    public int QueuedBytes => QueuedSegment.HeldBytesFor(IsShared ? Owner!.Memory.Length : SharedBuffer.CapacityFor(Bytes.Length));

    // A short run of a long buffer is copied: it would keep all of the buffer alive.
    private bool IsShared => Owner is not null && Owner.Memory.Length <= 2 * SharedBuffer.CapacityFor(Bytes.Length);

    /// <summary>One of the latest values, with its place in this run.</summary>
    public LatestMark GetLatest(int index)
    {
        var mark = Latest[index];
        return mark with { Start = mark.Start - LatestOrigin.Bytes, Before = mark.Before - LatestOrigin.Messages };
    }

    /// <summary>The same, as plain messages: what is sent around one of them belongs to it.</summary>
    public OutputRun WithoutLatest() => new(Bytes, Messages, Owner, Offset);

    /// <summary>Creates a segment of the run.</summary>
    /// <param name="taken">How many of its bytes are written already.</param>
    /// <param name="nextWire">Creates the wire for all bytes after it; null to keep the current one.</param>
    /// <param name="freeBytes">The memory that is left for it. Where its array would take more, as of a message that is nearly as long as the limit, it gets one of its exact size.</param>
    public QueuedSegment ToSegment(int taken, Func<IWire, IWire>? nextWire, int freeBytes)
    {
        if (QueuedBytes > freeBytes)
        {
            var exact = SharedBuffer.CopyExactly(Bytes[taken..]);
            return new QueuedSegment(exact, exact.Memory, Amount, nextWire);
        }

        if (!IsShared)
        {
            var copy = SharedBuffer.Copy(Bytes);
            return new QueuedSegment(copy, copy.Memory[taken..Bytes.Length], Amount, nextWire);
        }

        Owner!.AddReference();
        return new QueuedSegment(Owner, Owner.Memory[(Offset + taken)..(Offset + Bytes.Length)], Amount, nextWire);
    }
}

/// <summary>Pooled bytes that the queues of many connections share. The last release returns them to the pool.</summary>
internal sealed class SharedBuffer
{
    private const int MinArrayBytes = 16;

    private byte[]? _array;
    private int _references = 1;

    private SharedBuffer(byte[] array) => _array = array;

    public Memory<byte> Memory => _array;

    public static SharedBuffer Rent(int bytes) => new(ArrayPool<byte>.Shared.Rent(bytes));

    public static SharedBuffer Copy(ReadOnlySpan<byte> bytes)
    {
        var copy = Rent(bytes.Length);
        bytes.CopyTo(copy._array);
        return copy;
    }

    /// <summary>A copy that takes no more than its bytes, and is not pooled.</summary>
    public static SharedBuffer CopyExactly(ReadOnlySpan<byte> bytes) => new(bytes.ToArray());

    /// <summary>The size of the array that holds this many bytes: the pool's arrays have powers of two.</summary>
    public static int CapacityFor(int bytes) => bytes == 0 ? 0 : (int)Math.Max(MinArrayBytes, BitOperations.RoundUpToPowerOf2((uint)bytes));

    public void AddReference() => Interlocked.Increment(ref _references);

    public void Release()
    {
        if (Interlocked.Decrement(ref _references) != 0)
            return;
        if (CapacityFor(_array!.Length) == _array.Length)
            ArrayPool<byte>.Shared.Return(_array);
        _array = null;
    }
}

/// <summary>Joins the runs that one connection gets in one send, so that they leave in one write. Not thread-safe.</summary>
internal sealed class OutputComposer(SendQueueLimits limits)
{
    private readonly byte[] _bytes = new byte[limits.MaxRunBytes];
    private int _length;
    private int _messages;

    // Null until there is a latest value.
    private List<LatestMark>? _latest;

    /// <summary>Adds messages.</summary>
    /// <param name="connection">Gets earlier runs when they must leave first.</param>
    /// <param name="run">The messages.</param>
    /// <param name="tally">Counts the messages.</param>
    /// <param name="before">Bytes to send before the messages, counted with them.</param>
    public void Add(ClientConnection connection, in OutputRun run, ref DeliveryTally tally, ReadOnlySpan<byte> before = default)
    {
        var length = before.Length + run.Bytes.Length;
        if (_length + length > _bytes.Length || _messages + run.Messages > limits.MaxRunMessages)
            Flush(connection, ref tally);
        if (length > _bytes.Length)
        {
            connection.Send(before.IsEmpty ? run : new OutputRun([.. before, .. run.Bytes], run.Messages), ref tally);
            return;
        }

        before.CopyTo(_bytes.AsSpan(_length));
        _length += before.Length;
        for (var index = 0; index < run.Latest.Length; index++)
        {
            var mark = run.GetLatest(index);
            (_latest ??= []).Add(mark with { Start = mark.Start + _length, Before = mark.Before + _messages });
        }

        run.Bytes.CopyTo(_bytes.AsSpan(_length));
        _length += run.Bytes.Length;
        _messages += run.Messages;
    }

    /// <summary>Adds bytes after messages that have not left yet, counted with them.</summary>
    /// <returns>False when there is no such message, or the composer is full.</returns>
    public bool TryAppend(ReadOnlySpan<byte> bytes)
    {
        if (_messages == 0 || _length + bytes.Length > _bytes.Length)
            return false;
        bytes.CopyTo(_bytes.AsSpan(_length));
        _length += bytes.Length;
        return true;
    }

    /// <summary>The connection joins or leaves groups: their latest values that follow take no place before that.</summary>
    public void ChangeGroups(ClientConnection connection, IReadOnlyList<OutputHandle> groups, ref DeliveryTally tally)
    {
        if (_latest is { Count: > 0 })
            Flush(connection, ref tally);
        connection.Output.ForgetLatest(groups);
    }

    public void Flush(ClientConnection connection, ref DeliveryTally tally)
    {
        if (_length == 0 && _messages == 0)
            return;
        var run = new OutputRun(_bytes.AsSpan(0, _length), _messages) { Latest = CollectionsMarshal.AsSpan(_latest) };

        // Emptied first: whatever fails in the connection, the next one gets none of these bytes.
        (_length, _messages) = (0, 0);
        try
        {
            connection.Send(run, ref tally);
        }
        finally
        {
            _latest?.Clear();
        }
    }
}
