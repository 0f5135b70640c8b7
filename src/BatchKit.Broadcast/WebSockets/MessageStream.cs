using System.Net.WebSockets;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>Takes frames and sends their messages, for a server that shows WebSockets but no bytes, as a test server in memory does.</summary>
internal sealed class MessageStream(WebSocket socket) : Stream
{
    public override bool CanRead => true;

    public override bool CanWrite => true;

    public override bool CanSeek => false;

    public override long Length => throw new NotSupportedException();

    public override long Position
    {
        get => throw new NotSupportedException();
        set => throw new NotSupportedException();
    }

    /// <summary>Takes whole frames, as this side makes them: final and unmasked.</summary>
    public override async ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default)
    {
        while (!buffer.IsEmpty)
        {
            var frame = WebSocketEncoder.ReadFrame(buffer, out var opcode, out var payload);
            if (opcode == WebSocketEncoder.CloseOpcode)
                await socket.CloseOutputAsync(WebSocketClosings.StatusOf(payload.Span), statusDescription: null, cancellationToken).ConfigureAwait(false);
            else if (opcode is WebSocketEncoder.TextOpcode or WebSocketEncoder.BinaryOpcode)
                await socket.SendAsync(payload, TypeOf(opcode), endOfMessage: true, cancellationToken).ConfigureAwait(false);
            buffer = buffer[frame..];
        }
    }

    public override Task WriteAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken) =>
        WriteAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();

    public override void Flush()
    {
    }

    public override int Read(byte[] buffer, int offset, int count) => 0;

    public override void Write(byte[] buffer, int offset, int count) => throw new NotSupportedException();

    public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

    public override void SetLength(long value) => throw new NotSupportedException();

    private static WebSocketMessageType TypeOf(byte opcode) => opcode == WebSocketEncoder.TextOpcode ? WebSocketMessageType.Text : WebSocketMessageType.Binary;
}
