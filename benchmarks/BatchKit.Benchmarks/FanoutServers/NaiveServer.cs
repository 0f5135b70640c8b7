using System.Net.WebSockets;

namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>For each subscriber a task, a serialisation, an awaited send to its WebSocket and a count.</summary>
internal sealed class NaiveServer : IFanoutServer
{
    private readonly KestrelSockets _sockets = new();
    private readonly SendCounter _sent = new();

    public int Clients => _sockets.Count;

    public Task<int> StartAsync() => _sockets.StartAsync();

    public void Send(FanoutWorkload workload) => Task.WaitAll([.. _sockets.Snapshot.Select(socket => Task.Run(() => SendAsync(socket)))]);

    public async ValueTask DisposeAsync()
    {
        _sent.Dispose();
        await _sockets.DisposeAsync();
    }

    private async Task SendAsync(WebSocket socket)
    {
        await socket.SendAsync(Payload.Message.Serialise(), WebSocketMessageType.Text, endOfMessage: true, CancellationToken.None);
        _sent.Add();
    }
}
