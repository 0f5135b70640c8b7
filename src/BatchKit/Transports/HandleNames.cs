using System.Text;

namespace BatchKit.Transports;

/// <summary>The named handles that a receiver met lately, so that a name that comes again allocates nothing. One caller at a time.</summary>
internal sealed class HandleNames
{
    // 1,024 names of at most 256 bytes: under 1 MB whatever arrives.
    private const int Slots = 1024;
    private const int MaxKeptNameBytes = 256;
    private const int ObjectBytes = 32;

    private readonly (byte[] Bytes, OutputHandle Handle)[] _slots = new (byte[], OutputHandle)[Slots];

    /// <summary>The handle of a name that is valid UTF-8, not empty, and within the length that handles allow.</summary>
    public OutputHandle Get(ReadOnlySpan<byte> name, ref FrameCursor cursor)
    {
        var hash = default(HashCode);
        hash.AddBytes(name);
        ref var slot = ref _slots[hash.ToHashCode() & (Slots - 1)];
        if (slot.Bytes is not null && name.SequenceEqual(slot.Bytes))
            return slot.Handle;

        var handle = Make(name, ref cursor);
        if (name.Length <= MaxKeptNameBytes)
        {
            cursor.Spend(ObjectBytes + name.Length);
            slot = (name.ToArray(), handle);
        }

        return handle;
    }

    public static OutputHandle Make(ReadOnlySpan<byte> name, ref FrameCursor cursor)
    {
        cursor.Spend(ObjectBytes + (sizeof(char) * name.Length));
        return OutputHandle.Named(Encoding.UTF8.GetString(name));
    }
}
