namespace BatchKit.Broadcast.Tests.Receiving;

/// <summary>Makes inputs for a parser: valid ones, spoilt a little, cut into packets anywhere. The same for the same seed.</summary>
internal sealed class MutatedInput(int seed)
{
    private readonly byte[] _bytes = new byte[512];
    private int _length;

    public Random Random { get; } = new(seed);

    public ReadOnlyMemory<byte> Bytes => _bytes.AsMemory(0, _length);

    public string Hex => Convert.ToHexString(Bytes.Span);

    public void Clear() => _length = 0;

    public void Add(ReadOnlySpan<byte> bytes)
    {
        bytes.CopyTo(_bytes.AsSpan(_length));
        _length += bytes.Length;
    }

    public void AddRandom(int count)
    {
        Random.NextBytes(_bytes.AsSpan(_length, count));
        _length += count;
    }

    /// <summary>In two cases of three: changes, doubles or drops a few bytes, or puts in bytes that matter to the parser.</summary>
    public void Spoil(ReadOnlySpan<byte> telling)
    {
        for (var changes = Random.Next(3); changes > 0 && _length > 0; changes--)
        {
            var place = Random.Next(_length);
            switch (Random.Next(5))
            {
                case 0:
                    _bytes[place] = (byte)Random.Next(256);
                    break;
                case 1:
                    _bytes[place] = telling[Random.Next(telling.Length)];
                    break;
                case 2:
                    _bytes[place] ^= (byte)(1 << Random.Next(8));
                    break;
                case 3:
                    _bytes.AsSpan(place + 1, _length - place - 1).CopyTo(_bytes.AsSpan(place));
                    _length--;
                    break;
                default:
                    _length = place;
                    break;
            }
        }
    }

    /// <summary>Where packets end.</summary>
    public int[] Cuts()
    {
        var cuts = new int[Random.Next(4)];
        for (var index = 0; index < cuts.Length; index++)
            cuts[index] = Random.Next(_length + 1);
        Array.Sort(cuts);
        return cuts;
    }
}
