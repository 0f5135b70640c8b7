using System.Net.WebSockets;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>Takes frames and sends their messages, for a server that offers WebSockets but no bytes, such as a test server in memory.</summary>
internal sealed class MessageStream(WebSocket socket) : ConnectionStream
{
    // The rest of a message whose frame came in part: the queue writes a large one in several parts.
    private int _restBytes;
    private WebSocketMessageType _restType;

    /// <summary>Takes frames as the server side writes them: final and unmasked, each with its whole header.</summary>
    public override async ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default)
    {
        while (!buffer.IsEmpty)
        {
            if (_restBytes > 0)
            {
                buffer = buffer[await SendRestAsync(buffer, cancellationToken).ConfigureAwait(false)..];
                continue;
            }

            var header = WebSocketEncoder.ReadHeader(buffer.Span, out var opcode, out var length);
            buffer = buffer[header..];
            if (opcode is WebSocketEncoder.TextOpcode or WebSocketEncoder.BinaryOpcode && length > 0)
            {
                (_restBytes, _restType) = (length, TypeOf(opcode));
                continue;
            }

            if (opcode == WebSocketEncoder.CloseOpcode)
                await socket.CloseOutputAsync(WebSocketClosings.StatusOf(buffer.Span[..length]), statusDescription: null, cancellationToken).ConfigureAwait(false);
            else if (opcode is WebSocketEncoder.TextOpcode or WebSocketEncoder.BinaryOpcode)
                await socket.SendAsync(ReadOnlyMemory<byte>.Empty, TypeOf(opcode), endOfMessage: true, cancellationToken).ConfigureAwait(false);
            buffer = buffer[length..];
        }
    }

    public override Task WriteAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken) =>
        WriteAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();

    public override int Read(byte[] buffer, int offset, int count) => 0;

    public override void Write(byte[] buffer, int offset, int count) => throw new NotSupportedException();

    /// <returns>How many bytes belonged to the message.</returns>
    private async ValueTask<int> SendRestAsync(ReadOnlyMemory<byte> bytes, CancellationToken cancellationToken)
    {
        var part = Math.Min(bytes.Length, _restBytes);
        _restBytes -= part;
        await socket.SendAsync(bytes[..part], _restType, endOfMessage: _restBytes == 0, cancellationToken).ConfigureAwait(false);
        return part;
    }

    private static WebSocketMessageType TypeOf(byte opcode) => opcode == WebSocketEncoder.TextOpcode ? WebSocketMessageType.Text : WebSocketMessageType.Binary;
}
