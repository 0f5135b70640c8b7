using BatchKit.Broadcast.WebSockets;

namespace BatchKit.Broadcast.Tests.WebSockets;

/// <summary>Stands for a server's stream: gives the input in segments of some size, then its end, and keeps what is written. Never waits.</summary>
internal sealed class ChunkedStream(byte[] input, int length, int chunkBytes) : ConnectionStream
{
    private int _read;

    public List<byte> Written { get; } = [];

    public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
    {
        var count = Math.Min(Math.Min(buffer.Length, chunkBytes), length - _read);
        input.AsSpan(_read, count).CopyTo(buffer.Span);
        _read += count;
        return ValueTask.FromResult(count);
    }

    public override ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default)
    {
        Written.AddRange(buffer.Span);
        return default;
    }

    public override Task FlushAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public override int Read(byte[] buffer, int offset, int count) => throw new NotSupportedException();

    public override void Write(byte[] buffer, int offset, int count) => throw new NotSupportedException();
}
