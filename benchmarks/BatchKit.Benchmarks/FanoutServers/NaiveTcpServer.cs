using System.Net.Sockets;

namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>For each subscriber a task, a serialisation, an awaited send to its socket and a count.</summary>
internal sealed class NaiveTcpServer : IFanoutServer
{
    private readonly AcceptedSockets _sockets = new();
    private readonly SendCounter _sent = new();
    private Socket[] _snapshot = [];

    public int Clients => _sockets.Count;

    public Task<int> StartAsync() => Task.FromResult(_sockets.Start());

    public void Send(FanoutWorkload workload)
    {
        if (_snapshot.Length != Clients)
            _snapshot = _sockets.Snapshot;
        Task.WaitAll([.. _snapshot.Select(socket => Task.Run(() => SendAsync(socket)))]);
    }

    public ValueTask DisposeAsync()
    {
        _sent.Dispose();
        _sockets.Dispose();
        return default;
    }

    private async Task SendAsync(Socket socket)
    {
        await socket.SendAsync(Payload.Message.Serialise());
        _sent.Add();
    }
}
