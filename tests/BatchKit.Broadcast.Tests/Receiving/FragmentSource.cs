using BatchKit.Broadcast.Receiving;

namespace BatchKit.Broadcast.Tests.Receiving;

/// <summary>Gives bytes in fragments, at once: each as one read, or several where there is less room.</summary>
internal sealed class FragmentSource : IByteSource
{
    private ReadOnlyMemory<byte> _rest;
    private int[] _cuts = [];
    private int _given;
    private int _fragment;

    public Action? OnWait { get; set; }

    /// <summary>The most bytes that a read was asked for.</summary>
    public int MostRoom { get; private set; }

    /// <param name="bytes">All that the client sends before it ends.</param>
    /// <param name="cuts">Where packets end, rising.</param>
    public void Start(ReadOnlyMemory<byte> bytes, params int[] cuts)
    {
        (_rest, _cuts) = (bytes, cuts);
        (_given, _fragment) = (0, 0);
    }

    public ValueTask<int> WaitAsync()
    {
        OnWait?.Invoke();
        return ValueTask.FromResult(0);
    }

    public ValueTask<int> ReadAsync(Memory<byte> buffer)
    {
        MostRoom = Math.Max(MostRoom, buffer.Length);
        while (_fragment < _cuts.Length && _cuts[_fragment] <= _given)
            _fragment++;
        var end = _fragment < _cuts.Length ? _cuts[_fragment] - _given : _rest.Length;
        var read = Math.Min(end, buffer.Length);
        _rest[..read].CopyTo(buffer);
        _rest = _rest[read..];
        _given += read;
        return ValueTask.FromResult(read);
    }
}
