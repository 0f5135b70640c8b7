namespace BatchKit.Sessions;

/// <summary>The bytes that a connection was handed and its client has not acknowledged. The session's lock guards it.</summary>
internal sealed class ForwardWindow
{
    /// <summary>What is handed over ahead of the acknowledgements. A client's queue holds at most twice as much for it, and 1 MiB by default.</summary>
    public const int MaxBytes = 256 * 1024;

    // Numbers whose bytes are free together, so that few are remembered.
    private const int PartBytes = MaxBytes / 16;
    private const int MaxParts = 64;

    private readonly Queue<(long Last, long Bytes)> _parts = [];
    private (long Last, long Bytes) _newest;
    private long _bytes;

    public long FreeBytes => MaxBytes - _bytes;

    public void Add(long number, int bytes)
    {
        _bytes += bytes;
        _newest = (number, _newest.Bytes + bytes);
        if (_newest.Bytes < PartBytes || _parts.Count == MaxParts)
            return;
        _parts.Enqueue(_newest);
        _newest = default;
    }

    public void Acknowledge(long number)
    {
        while (_parts.TryPeek(out var part) && part.Last <= number)
            _bytes -= _parts.Dequeue().Bytes;
        if (_newest.Last > number)
            return;
        _bytes -= _newest.Bytes;
        _newest = default;
    }

    public void Clear() => Acknowledge(long.MaxValue);
}
