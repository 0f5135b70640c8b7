using System.Net.WebSockets;

namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>The message is serialised once and sent to each of Kestrel's WebSockets in a loop, which waits only at the end.</summary>
internal sealed class KestrelServer : IFanoutServer
{
    private readonly KestrelSockets _sockets = new();

    public int Clients => _sockets.Count;

    public Task<int> StartAsync() => _sockets.StartAsync();

    public void Send(FanoutWorkload workload)
    {
        var message = Payload.Message.Serialise();
        var waiting = new List<Task>();
        foreach (var socket in _sockets.Snapshot)
        {
            var sending = socket.SendAsync(message.AsMemory(), WebSocketMessageType.Text, endOfMessage: true, CancellationToken.None);
            if (!sending.IsCompletedSuccessfully)
                waiting.Add(sending.AsTask());
        }

        Task.WaitAll(waiting.ToArray());
    }

    public ValueTask DisposeAsync() => _sockets.DisposeAsync();
}
