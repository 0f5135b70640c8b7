using System.Net;
using BatchKit.Broadcast;

namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>BatchKit's listener.</summary>
internal sealed class TcpDoor(BroadcastTransport transport, Func<ClientConnection, IConnectionHandler> handlers, ClientProtocol protocol = ClientProtocol.Tcp) : IFanoutDoor
{
    private readonly BroadcastListener _listener =
        new(transport, new BroadcastListenerOptions { EndPoint = new IPEndPoint(IPAddress.Loopback, 0), Protocol = protocol }, handlers);

    public async Task<int> StartAsync()
    {
        await _listener.StartAsync(CancellationToken.None);
        return _listener.EndPoint.Port;
    }

    public ValueTask DisposeAsync() => _listener.DisposeAsync();
}
