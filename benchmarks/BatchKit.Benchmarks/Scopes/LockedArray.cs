namespace BatchKit.Benchmarks.Scopes;

/// <summary>The least that appending from several threads can cost: a lock, and a copy into an array that is used again when it is full.</summary>
internal sealed class LockedArray
{
    private readonly Lock _lock = new();
    private readonly byte[] _bytes = new byte[64 * 1024];
    private int _count;

    public void Append(ReadOnlySpan<byte> payload)
    {
        lock (_lock)
        {
            if (_bytes.Length - _count < payload.Length)
                _count = 0;
            payload.CopyTo(_bytes.AsSpan(_count));
            _count += payload.Length;
        }
    }
}
