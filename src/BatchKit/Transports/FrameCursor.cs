using System.Buffers.Binary;
using System.Diagnostics.CodeAnalysis;
using System.Numerics;
using System.Text;
using System.Text.Unicode;

namespace BatchKit.Transports;

/// <summary>A position in a frame that is being read, and the memory that reading may still take. Refuses to pass either limit.</summary>
internal ref struct FrameCursor
{
    private readonly ReadOnlySpan<byte> _frame;
    private readonly FrameLimits _limits;
    private long _spentBytes;

    public FrameCursor(ReadOnlySpan<byte> frame, FrameLimits limits)
    {
        _frame = frame;
        _limits = limits;
    }

    public int Position { get; private set; }

    public readonly int Remaining => _frame.Length - Position;

    [DoesNotReturn]
    public static void Refuse(string reason) => throw new FrameFormatException(reason);

    /// <summary>Counts memory that is about to be taken.</summary>
    public void Spend(long bytes)
    {
        _spentBytes += bytes;
        if (_spentBytes > _limits.MaxDecodedBytes)
            Refuse($"Reading the frame takes more than {nameof(FrameLimits.MaxDecodedBytes)} ({_limits.MaxDecodedBytes}).");
    }

    /// <summary>Counts an array from a pool, which may be up to twice as long as what was asked for, and is new when the pool has none.</summary>
    public void SpendRented(int count, int elementBytes)
    {
        const int arrayObjectBytes = 24;
        const int leastPooledLength = 16;
        Spend(arrayObjectBytes + (Math.Max(leastPooledLength, (long)BitOperations.RoundUpToPowerOf2((ulong)count)) * elementBytes));
    }

    public byte ReadByte()
    {
        if (Remaining < 1)
            RefuseTruncated();
        return _frame[Position++];
    }

    public long ReadInt64() => BinaryPrimitives.ReadInt64LittleEndian(ReadBytes(sizeof(long)));

    public ReadOnlySpan<byte> ReadBytes(int count)
    {
        if ((uint)count > (uint)Remaining)
            RefuseTruncated();
        var bytes = _frame.Slice(Position, count);
        Position += count;
        return bytes;
    }

    public ulong ReadVarint()
    {
        var value = 0UL;
        for (var shift = 0; shift < 64; shift += 7)
        {
            var part = ReadByte();
            value |= (ulong)(part & 0x7F) << shift;
            // The tenth byte holds the 64th bit alone.
            if (shift == 63 && part > 1)
                break;
            if (part < 0x80)
                return value;
        }

        Refuse("A number in the frame has more than 64 bits.");
        return 0;
    }

    /// <summary>A number from the least to the most, both included.</summary>
    public long ReadNumber(long least, long most, string name)
    {
        var value = ReadVarint();
        if (value > (ulong)most || (long)value < least)
            Refuse($"The frame's {name} ({value}) is not from {least} to {most}.");
        return (long)value;
    }

    /// <summary>A count of things of which each takes some bytes of what remains, so that no count can ask for more than the frame holds.</summary>
    public int ReadCount(int leastBytesEach, string name)
    {
        var value = ReadVarint();
        if (value > (ulong)(Remaining / leastBytesEach))
            Refuse($"The frame says that it has {value} {name}, for which it has too few bytes left.");
        return (int)value;
    }

    public ReadOnlySpan<byte> ReadTextBytes()
    {
        var bytes = ReadBytes(ReadCount(leastBytesEach: 1, "bytes of text"));
        if (bytes.Length > MessageHeader.MaxTextBytes)
            Refuse($"A text in the frame has more than {nameof(MessageHeader.MaxTextBytes)} ({MessageHeader.MaxTextBytes}) bytes.");
        if (!Utf8.IsValid(bytes))
            Refuse("A text in the frame is not UTF-8.");
        return bytes;
    }

    public string ReadText()
    {
        const int stringObjectBytes = 32;
        var bytes = ReadTextBytes();
        Spend(stringObjectBytes + (sizeof(char) * bytes.Length));
        return Encoding.UTF8.GetString(bytes);
    }

    /// <summary>Reads the messages' lengths as the places where they end, which must add up.</summary>
    public void ReadEnds(Span<int> ends, int payloadBytes)
    {
        var frame = _frame;
        var position = Position;
        var end = 0L;
        for (var index = 0; index < ends.Length; index++)
        {
            if ((uint)position < (uint)frame.Length && frame[position] <= VarintWriter.MaxOneByteValue)
            {
                end += frame[position++];
            }
            else
            {
                Position = position;
                end += ReadNumber(0, payloadBytes, "message length");
                position = Position;
            }

            ends[index] = (int)end;
        }

        Position = position;
        if (end != payloadBytes)
            Refuse($"The frame's messages have {end} bytes and its batch says {payloadBytes}.");
    }

    [DoesNotReturn]
    private static void RefuseTruncated() => Refuse("The frame ends too early.");
}

/// <summary>The named handles that a receiver has met recently, so that a repeated name allocates nothing. One caller at a time.</summary>
internal sealed class HandleNames
{
    // 1,024 names of at most 256 bytes: under 1 MB whatever arrives.
    private const int Slots = 1024;
    private const int MaxKeptNameBytes = 256;
    private const int ObjectBytes = 32;

    private readonly (byte[] Bytes, OutputHandle Handle)[] _slots = new (byte[], OutputHandle)[Slots];

    /// <summary>The handle of a name that is valid UTF-8, not empty, and within the length that handles allow.</summary>
    public OutputHandle GetOrAdd(ReadOnlySpan<byte> name, ref FrameCursor cursor)
    {
        var hash = default(HashCode);
        hash.AddBytes(name);
        ref var slot = ref _slots[hash.ToHashCode() & (Slots - 1)];
        if (slot.Bytes is not null && name.SequenceEqual(slot.Bytes))
            return slot.Handle;

        var handle = Create(name, ref cursor);
        if (name.Length <= MaxKeptNameBytes)
        {
            cursor.Spend(ObjectBytes + name.Length);
            slot = (name.ToArray(), handle);
        }

        return handle;
    }

    public static OutputHandle Create(ReadOnlySpan<byte> name, ref FrameCursor cursor)
    {
        cursor.Spend(ObjectBytes + (sizeof(char) * name.Length));
        return OutputHandle.Named(Encoding.UTF8.GetString(name));
    }
}
