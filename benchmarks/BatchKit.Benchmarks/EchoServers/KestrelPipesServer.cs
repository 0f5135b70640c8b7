using BatchKit.Benchmarks.FanoutServers;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Connections;

namespace BatchKit.Benchmarks.EchoServers;

/// <summary>Kestrel's pipes: each record is written and flushed.</summary>
internal sealed class KestrelPipesServer : IEchoServer
{
    private readonly WebApplication _application = LoopbackApplication.Build(listen: options => options.UseConnectionHandler<PipeEcho>());

    public Task<int> StartAsync() => LoopbackApplication.StartAsync(_application);

    public ValueTask DisposeAsync() => _application.DisposeAsync();
}
