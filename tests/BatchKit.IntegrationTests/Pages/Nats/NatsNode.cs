using Microsoft.Extensions.DependencyInjection;
using NATS.Client.Core;
using NATS.Client.JetStream;

namespace BatchKit.IntegrationTests.Pages.Nats;

/// <summary>A process with the page's example for NATS.</summary>
internal sealed class NatsNode(int node, Uri server) : FrameNode(node, services => NatsExample.Add(services, node, server.ToString()))
{
    public static Task<NatsNode> StartAsync(int node, Uri server) => StartAsync(new NatsNode(node, server));

    /// <summary>Ends its connection while it works, as the end of a process does: the server hears nothing more from it.</summary>
    public ValueTask BreakAsync() => Services.GetRequiredService<INatsConnection>().DisposeAsync();

    protected override async Task<bool> IsKnownAsync()
    {
        try
        {
            await Services.GetRequiredService<INatsJSContext>().GetConsumerAsync("frames", $"node-{Node}");
            return true;
        }
        catch (NatsJSApiException exception) when (exception.Error.Code == 404)
        {
            return false;
        }
    }
}
