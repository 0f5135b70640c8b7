using MudServer.Game;
using MudServer.Hosting;

namespace MudServer.Clients;

/// <summary>Tells the game, before the first client comes, that this node has started: what the node had before is gone.</summary>
internal sealed class NodeAnnouncement([FromKeyedServices(MudBuffers.Input)] IOutputBuffer input, MudOptions options) : IHostedService
{
    public async Task StartAsync(CancellationToken cancellationToken)
    {
        // A number that no client gets: theirs start at the clock.
        var node = OutputHandle.Connection(options.Node, sequence: 1);
        await input.WriteAsync(node, ReadOnlyMemory<byte>.Empty, InputMessage.HeaderFor(InputKind.NodeStarted), cancellationToken);
    }

    public Task StopAsync(CancellationToken cancellationToken) => Task.CompletedTask;
}
