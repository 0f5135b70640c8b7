using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast.Tests.Connections.Queueing;

/// <summary>A wire that takes as many bytes as it was granted. A write that waits goes on, on the granting thread, before the grant returns.</summary>
internal sealed class SteppedWire : IWire
{
    private readonly List<byte> _written = [];
    private TaskCompletionSource? _waiting;
    private ReadOnlyMemory<byte> _rest;
    private bool _isBroken;

    public IReadOnlyList<byte> Written => _written;

    public int Room { get; private set; }

    public bool IsFinished { get; private set; }

    public bool IsAborted { get; private set; }

    public void Grant(int bytes)
    {
        Room = (int)Math.Min(int.MaxValue, (long)Room + bytes);
        Continue();
    }

    public void Close() => Room = 0;

    public void Break()
    {
        _isBroken = true;
        End(new IOException("The wire is broken."));
    }

    public int TryWrite(ReadOnlySpan<byte> bytes)
    {
        ThrowIfOver();
        return Take(bytes);
    }

    public ValueTask WriteAsync(ReadOnlyMemory<byte> bytes)
    {
        ThrowIfOver();
        Assert.Null(_waiting);
        var waiting = _waiting = new TaskCompletionSource();
        _rest = bytes;
        Continue();
        return new ValueTask(waiting.Task);
    }

    public ValueTask FinishAsync()
    {
        ThrowIfOver();
        IsFinished = true;
        return default;
    }

    public void Abort()
    {
        IsAborted = true;
        End(new ObjectDisposedException(nameof(SteppedWire)));
    }

    private void Continue()
    {
        if (_waiting is not { } waiting)
            return;
        _rest = _rest[Take(_rest.Span)..];
        if (!_rest.IsEmpty)
            return;
        _waiting = null;
        waiting.SetResult();
    }

    private int Take(ReadOnlySpan<byte> bytes)
    {
        var taken = Math.Min(bytes.Length, Room);
        _written.AddRange(bytes[..taken]);
        Room -= Room == int.MaxValue ? 0 : taken;
        return taken;
    }

    private void End(Exception exception)
    {
        var waiting = _waiting;
        _waiting = null;
        waiting?.SetException(exception);
    }

    private void ThrowIfOver()
    {
        if (_isBroken)
            throw new IOException("The wire is broken.");
        ObjectDisposedException.ThrowIf(IsAborted, this);
    }
}
