using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast.Tests.Connections;

/// <summary>A wire that takes as many bytes as a test lets it.</summary>
internal sealed class FakeWire : IWire
{
    private readonly Lock _lock = new();
    private readonly List<byte> _written = [];
    private TaskCompletionSource _opened = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private int _room = int.MaxValue;

    /// <summary>What <see cref="Abort"/> throws when it has ended the wire; null for nothing.</summary>
    public Exception? AbortFailure { get; set; }

    /// <summary>What the client's system has acknowledged; not known by default.</summary>
    public long? AcknowledgedBytes { get; set; }

    public bool IsAborted { get; private set; }

    public bool IsFinished { get; private set; }

    /// <summary>How often it was written to, tries that took nothing left out.</summary>
    public int Writes { get; private set; }

    public byte[] Written
    {
        get
        {
            lock (_lock)
                return [.. _written];
        }
    }

    /// <summary>Takes so many bytes from here on, and then none until it is opened.</summary>
    public void Limit(int bytes)
    {
        lock (_lock)
        {
            _room = bytes;
            _opened = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        }
    }

    /// <summary>Takes so many bytes more, also of a write under way.</summary>
    public void Allow(int bytes)
    {
        lock (_lock)
        {
            var opened = _opened;
            Limit(bytes);
            opened.TrySetResult();
        }
    }

    public void Open()
    {
        lock (_lock)
        {
            _room = int.MaxValue;
            _opened.TrySetResult();
        }
    }

    public int TryWrite(ReadOnlySpan<byte> bytes)
    {
        lock (_lock)
        {
            ObjectDisposedException.ThrowIf(IsAborted, this);
            var taken = Math.Min(bytes.Length, _room);
            if (taken > 0)
                Take(bytes[..taken]);
            return taken;
        }
    }

    public async ValueTask WriteAsync(ReadOnlyMemory<byte> bytes)
    {
        while (!TryTakeAll(bytes.Span, out var opened))
            await opened;
    }

    public ValueTask FinishAsync()
    {
        IsFinished = true;
        return default;
    }

    public void Abort()
    {
        Break();
        if (AbortFailure is { } failure)
            throw failure;
    }

    /// <summary>Lets every write fail from here on.</summary>
    public void Break()
    {
        IsAborted = true;
        _opened.TrySetResult();
    }

    // False when there is no room. When it was opened there may be none again: the test may have limited it meanwhile.
    private bool TryTakeAll(ReadOnlySpan<byte> bytes, out Task opened)
    {
        lock (_lock)
        {
            ObjectDisposedException.ThrowIf(IsAborted, this);
            opened = _opened.Task;
            if (_room < bytes.Length)
                return false;
            Take(bytes);
            return true;
        }
    }

    private void Take(ReadOnlySpan<byte> bytes)
    {
        _written.AddRange(bytes);
        _room -= _room == int.MaxValue ? 0 : bytes.Length;
        Writes++;
    }
}
