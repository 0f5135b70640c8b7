using BatchKit.Broadcast.Receiving;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>What the framework's WebSocket reads and writes: it reads from the server, and its own frames go through the connection's queue, so that all bytes have one order.</summary>
/// <param name="server">The server's stream of the upgraded connection. Who made the request ends it, not this.</param>
internal sealed class UpgradedStream(Stream server) : Stream
{
    private const byte OpcodeBits = 0x0F;

    private ClientConnection? _connection;
    private InboundDelivery? _delivery;
    private OutputWay? _way;
    private PongWatch? _pongWatch;

    public override bool CanRead => true;

    public override bool CanWrite => true;

    public override bool CanSeek => false;

    public override long Length => throw new NotSupportedException();

    public override long Position
    {
        get => throw new NotSupportedException();
        set => throw new NotSupportedException();
    }

    /// <summary>The server's own stream.</summary>
    public Stream Server => server;

    /// <summary>True once the framework ended the WebSocket, because the client broke the protocol.</summary>
    public bool HasClosed { get; private set; }

    /// <summary>Says whose bytes they are; before that, nothing is read or written.</summary>
    public void Attach(ClientConnection connection, InboundDelivery delivery, OutputWay way)
    {
        _connection = connection;
        _delivery = delivery;
        _way = way;
        _pongWatch = way.IsOpen ? new PongWatch() : null;
    }

    public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
    {
        var reading = server.ReadAsync(buffer, cancellationToken);
        return reading.IsCompletedSuccessfully ? ValueTask.FromResult(Note(buffer.Span[..reading.Result])) : ReadSlowAsync(reading, buffer);
    }

    /// <summary>Takes one whole frame: the framework writes each by one call.</summary>
    public override ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default)
    {
        Write(buffer.Span);
        return default;
    }

    public override void Write(ReadOnlySpan<byte> buffer)
    {
        if ((buffer[0] & OpcodeBits) != WebSocketEncoder.CloseOpcode)
        {
            _connection!.SendControl(buffer);
            return;
        }

        HasClosed = true;
        _way!.ChooseStream("it broke the protocol first");
        _connection!.Output.Complete(buffer);
    }

    public override Task FlushAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public override Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken) =>
        ReadAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();

    public override Task WriteAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken)
    {
        Write(buffer.AsSpan(offset, count));
        return Task.CompletedTask;
    }

    public override void Write(byte[] buffer, int offset, int count) => Write(buffer.AsSpan(offset, count));

    public override void Flush()
    {
    }

    public override int Read(byte[] buffer, int offset, int count) => throw new NotSupportedException();

    public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

    public override void SetLength(long value) => throw new NotSupportedException();

    private async ValueTask<int> ReadSlowAsync(ValueTask<int> reading, Memory<byte> buffer)
    {
        var read = await reading.ConfigureAwait(false);
        return Note(buffer.Span[..read]);
    }

    private int Note(ReadOnlySpan<byte> received)
    {
        if (received.IsEmpty)
            return 0;
        _delivery!.TryNote(received.Length);
        if (_pongWatch?.HasPong(received) is true)
        {
            _pongWatch = null;
            _way!.ChooseDirect();
        }

        return received.Length;
    }
}
