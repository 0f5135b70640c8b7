using System.Threading.Channels;

namespace BatchKit.Mqtt.Tests.Connections;

/// <summary>Takes writes at once, or when the test lets it, and notices two at once.</summary>
internal sealed class ScriptedStream : Stream
{
    private readonly Channel<byte[]> _writes = Channel.CreateUnbounded<byte[]>();
    private TaskCompletionSource? _hold;
    private int _writers;

    public override bool CanRead => false;

    public override bool CanSeek => false;

    public override bool CanWrite => true;

    public override long Length => throw new NotSupportedException();

    public override long Position
    {
        get => throw new NotSupportedException();
        set => throw new NotSupportedException();
    }

    public bool HadTwoWritesAtOnce { get; private set; }

    /// <summary>False keeps nothing of what is written, and so allocates nothing.</summary>
    public bool KeepsWrites { get; init; } = true;

    public Exception? Failure { get; set; }

    public int WriteCount => _writes.Reader.Count;

    public void Hold() => _hold = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);

    /// <summary>Lets held writes complete, and those that follow.</summary>
    public void LetGo()
    {
        var hold = _hold!;
        _hold = null;
        hold.SetResult();
    }

    public Task<byte[]> NextAsync() => _writes.Reader.ReadAsync().WithinDeadline();

    public override ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default)
    {
        if (KeepsWrites)
            _writes.Writer.TryWrite(buffer.ToArray());
        if (Failure is { } failure)
            return ValueTask.FromException(failure);
        HadTwoWritesAtOnce |= Interlocked.Increment(ref _writers) > 1;
        if (_hold is { } hold)
            return FinishAsync(hold.Task);
        Interlocked.Decrement(ref _writers);
        return default;
    }

    public override void Flush() => throw new NotSupportedException();

    public override int Read(byte[] buffer, int offset, int count) => throw new NotSupportedException();

    public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

    public override void SetLength(long value) => throw new NotSupportedException();

    public override void Write(byte[] buffer, int offset, int count) => throw new NotSupportedException();

    private async ValueTask FinishAsync(Task hold)
    {
        await hold;
        Interlocked.Decrement(ref _writers);
        if (Failure is { } failure)
            throw failure;
    }
}
