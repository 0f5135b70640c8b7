using System.Net.WebSockets;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;

namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>Kestrel's WebSockets: the message is serialised once and sent to each in a loop, which waits only at the end.</summary>
internal sealed class KestrelServer : IFanoutServer
{
    private readonly WebApplication _application = LoopbackApplication.Build();
    private readonly List<WebSocket> _sockets = [];

    // Guards the list.
    private readonly Lock _lock = new();
    private WebSocket[] _snapshot = [];

    public int Clients
    {
        get
        {
            lock (_lock)
                return _sockets.Count;
        }
    }

    public Task<int> StartAsync()
    {
        _application.UseWebSockets(new WebSocketOptions { KeepAliveInterval = Timeout.InfiniteTimeSpan });
        _application.Map("/socket", ServeAsync);
        return LoopbackApplication.StartAsync(_application);
    }

    public void Send(FanoutWorkload workload)
    {
        if (_snapshot.Length != Clients)
            _snapshot = Snapshot();
        var message = Payload.Message.Serialise();
        var waiting = new List<Task>();
        foreach (var socket in _snapshot)
        {
            var sending = socket.SendAsync(message.AsMemory(), WebSocketMessageType.Text, endOfMessage: true, CancellationToken.None);
            if (!sending.IsCompletedSuccessfully)
                waiting.Add(sending.AsTask());
        }

        Task.WaitAll(waiting.ToArray());
    }

    public ValueTask DisposeAsync() => _application.DisposeAsync();

    private WebSocket[] Snapshot()
    {
        lock (_lock)
            return [.. _sockets];
    }

    private async Task ServeAsync(HttpContext context)
    {
        using var socket = await context.WebSockets.AcceptWebSocketAsync();
        lock (_lock)
            _sockets.Add(socket);
        try
        {
            await socket.ReceiveAsync(new byte[16].AsMemory(), context.RequestAborted);
        }
        catch (Exception end) when (end is WebSocketException or OperationCanceledException)
        {
            // The sink is gone.
        }
    }
}
