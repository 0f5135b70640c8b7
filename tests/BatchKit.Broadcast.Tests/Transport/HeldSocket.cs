using System.Collections.Concurrent;
using System.Net.WebSockets;
using System.Text;

namespace BatchKit.Broadcast.Tests.Transport;

/// <summary>A web socket whose first message waits until it is released.</summary>
internal sealed class HeldSocket : WebSocket
{
    private readonly TaskCompletionSource _released = new();
    private readonly MemoryStream _message = new();

    public ConcurrentQueue<string> Texts { get; } = new();

    public override WebSocketCloseStatus? CloseStatus => null;

    public override string? CloseStatusDescription => null;

    public override WebSocketState State => WebSocketState.Open;

    public override string? SubProtocol => null;

    public void Release() => _released.SetResult();

    public override async Task SendAsync(ArraySegment<byte> buffer, WebSocketMessageType messageType, bool endOfMessage, CancellationToken cancellationToken)
    {
        await _released.Task;
        _message.Write(buffer);
        if (!endOfMessage)
            return;
        Texts.Enqueue(Encoding.UTF8.GetString(_message.ToArray()));
        _message.SetLength(0);
    }

    public override void Abort()
    {
    }

    public override Task CloseAsync(WebSocketCloseStatus closeStatus, string? statusDescription, CancellationToken cancellationToken) => Task.CompletedTask;

    public override Task CloseOutputAsync(WebSocketCloseStatus closeStatus, string? statusDescription, CancellationToken cancellationToken) => Task.CompletedTask;

    public override Task<WebSocketReceiveResult> ReceiveAsync(ArraySegment<byte> buffer, CancellationToken cancellationToken) => throw new NotSupportedException();

    public override void Dispose() => _message.Dispose();
}
