namespace BatchKit.Broadcast.Telnet;

/// <summary>Where the bytes of one read's records lie that had to be changed.</summary>
internal sealed class RecordBytes
{
    // An idle client keeps no more than this.
    private const int MaxKeptBytes = 4096;

    private byte[] _bytes = [];
    private int _length;

    /// <summary>Room behind what was taken; it stays where it is when more is asked for.</summary>
    public Span<byte> GetRoom(int bytes)
    {
        if (_bytes.Length - _length < bytes)
        {
            // The records before keep the old array.
            _bytes = new byte[Math.Max(bytes, 2 * _bytes.Length)];
            _length = 0;
        }

        return _bytes.AsSpan(_length);
    }

    /// <summary>Takes what was written to the room.</summary>
    public ReadOnlyMemory<byte> Take(int bytes)
    {
        var taken = _bytes.AsMemory(_length, bytes);
        _length += bytes;
        return taken;
    }

    /// <summary>Makes all room free again.</summary>
    public void Clear()
    {
        _length = 0;
        if (_bytes.Length > MaxKeptBytes)
            _bytes = [];
    }
}
