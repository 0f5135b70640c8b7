namespace BatchKit.Tests.Transports;

/// <summary>Breaks frames: flips, sets, inserts and takes out bytes, cuts them short, and writes numbers that are far too large.</summary>
internal sealed class FrameMutator(Random random, int maxBytes)
{
    private static readonly byte[][] Numbers =
    [
        [0x00],
        [0x7F],
        [0xFF, 0xFF, 0xFF, 0xFF, 0x07],
        [0xFF, 0xFF, 0xFF, 0xFF, 0x0F],
        [0x80, 0x80, 0x80, 0x40],
        [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F],
        [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01],
        [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80],
    ];

    private readonly byte[] _bytes = new byte[maxBytes];

    private int _length;

    /// <summary>A broken copy, valid until the next call.</summary>
    public ReadOnlyMemory<byte> Mutate(ReadOnlySpan<byte> frame)
    {
        frame.CopyTo(_bytes);
        _length = frame.Length;
        for (var edits = random.Next(1, 5); edits > 0; edits--)
            Edit();
        return _bytes.AsMemory(0, _length);
    }

    private void Edit()
    {
        if (_length == 0)
            return;
        // Half of the edits hit the first bytes, where most of the numbers are.
        var place = random.Next(random.Next(2) == 0 ? _length : Math.Min(_length, 32));
        switch (random.Next(6))
        {
            case 0:
                _bytes[place] ^= (byte)(1 << random.Next(8));
                break;
            case 1:
                _bytes[place] = (byte)random.Next(256);
                break;
            case 2:
                Replace(place, removed: 0, [(byte)random.Next(256)]);
                break;
            case 3:
                Replace(place, removed: Math.Min(random.Next(1, 9), _length - place), []);
                break;
            case 4:
                _length = place;
                break;
            default:
                Replace(place, removed: 1, Numbers[random.Next(Numbers.Length)]);
                break;
        }
    }

    private void Replace(int place, int removed, ReadOnlySpan<byte> inserted)
    {
        var tail = _length - place - removed;
        if (place + inserted.Length + tail > _bytes.Length)
            return;
        _bytes.AsSpan(place + removed, tail).CopyTo(_bytes.AsSpan(place + inserted.Length));
        inserted.CopyTo(_bytes.AsSpan(place));
        _length = place + inserted.Length + tail;
    }
}
