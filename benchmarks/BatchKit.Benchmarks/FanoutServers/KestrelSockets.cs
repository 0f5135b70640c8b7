using System.Net.WebSockets;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;

namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>Kestrel's WebSockets, kept in a list.</summary>
internal sealed class KestrelSockets : IAsyncDisposable
{
    private readonly WebApplication _application = LoopbackApplication.BuildForWebSockets();
    private readonly List<WebSocket> _sockets = [];

    // Guards the list and the snapshot.
    private readonly Lock _lock = new();
    private WebSocket[] _snapshot = [];

    public int Count
    {
        get
        {
            lock (_lock)
                return _sockets.Count;
        }
    }

    public WebSocket[] Snapshot
    {
        get
        {
            lock (_lock)
                return _snapshot.Length == _sockets.Count ? _snapshot : _snapshot = [.. _sockets];
        }
    }

    /// <returns>The port.</returns>
    public Task<int> StartAsync()
    {
        _application.UseWebSockets(new WebSocketOptions { KeepAliveInterval = Timeout.InfiniteTimeSpan });
        _application.Map("/socket", ServeAsync);
        return LoopbackApplication.StartAsync(_application);
    }

    public ValueTask DisposeAsync() => _application.DisposeAsync();

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

        // The snapshot would keep the socket's memory.
        lock (_lock)
        {
            _sockets.Remove(socket);
            _snapshot = [];
        }
    }
}
