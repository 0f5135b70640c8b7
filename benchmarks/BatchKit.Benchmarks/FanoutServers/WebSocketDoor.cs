using BatchKit.Broadcast;
using Microsoft.AspNetCore.Builder;

namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>BatchKit's WebSockets under Kestrel.</summary>
internal sealed class WebSocketDoor(BroadcastTransport transport, Func<ClientConnection, IConnectionHandler> handlers) : IFanoutDoor
{
    private readonly WebApplication _application = LoopbackApplication.BuildForWebSockets();

    public Task<int> StartAsync()
    {
        _application.MapBatchKitWebSockets("/socket", transport, handlers);
        return LoopbackApplication.StartAsync(_application);
    }

    public ValueTask DisposeAsync() => _application.DisposeAsync();
}
