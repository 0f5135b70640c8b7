using MudServer.Game;
using MudServer.Hosting;

namespace MudServer.Clients;

/// <summary>Tells the game, before the first client connects, that this node has started and that its earlier connections have ended.</summary>
internal sealed class NodeAnnouncement(ShardInputs inputs, MudOptions options) : IHostedService
{
    public async Task StartAsync(CancellationToken cancellationToken)
    {
        // No client gets this number, because theirs start at a large random number.
        var node = OutputHandle.Connection(options.Node, sequence: 1);
        foreach (var input in inputs.All)
            await input.WriteAsync(node, ReadOnlyMemory<byte>.Empty, InputMessage.HeaderFor(InputKind.NodeStarted), cancellationToken);
    }

    public Task StopAsync(CancellationToken cancellationToken) => Task.CompletedTask;
}
