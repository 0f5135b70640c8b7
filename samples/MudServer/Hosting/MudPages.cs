using BatchKit.Broadcast;
using BatchKit.MassTransit;
using BatchKit.RabbitMQ;
using BatchKit.Sessions;
using BatchKit.Transports;
using MudServer.Clients;
using MudServer.Game;
using MudServer.Web;

namespace MudServer.Hosting;

/// <summary>Maps the pages and endpoints of the HTTP server.</summary>
internal static class MudPages
{
    public static void Map(WebApplication application)
    {
        if (application.Services.GetRequiredService<MudOptions>().Role == MudRole.Game)
        {
            application.MapGet("/", () => Results.Redirect("/stats"));
        }
        else
        {
            WebPage.Map(application);
            PlayerClients.Map(application);
        }

        application.MapGet("/stats", Read);
        application.MapHealthChecks("/health", new() { ResponseWriter = WriteHealthAsync });
    }

    private static MudStatistics Read(IServiceProvider services, MudOptions options) => new()
    {
        Role = options.Role,
        Transport = options.Transport,
        Hop = options.Hop,
        IsBuffered = options.IsBuffered,
        Node = options.Node,
        Players = services.GetService<World>()?.PlayerCount,
        Shards = services.GetService<Shards>()?.Owned.ToList(),
        Away = services.GetService<SessionTransport>()?.GetStatistics(),
        Output = services.GetService<IOutputBuffer>()?.GetStatistics(),
        Input = services.GetKeyedService<IOutputBuffer>(MudBuffers.Input)?.GetStatistics(),
        Receiver = FindReceiver(services, options),
        Clients = services.GetKeyedService<BroadcastTransport>(MudBuffers.Input)?.GetStatistics(),
    };

    private static BatchReceiverStatistics? FindReceiver(IServiceProvider services, MudOptions options)
    {
        // The receiver has the name of its buffer, and a gateway has only the input buffer.
        var name = options.Role == MudRole.Gateway ? MudBuffers.Input : string.Empty;
        return services.GetService<SimulatedBroker>()?.Receiver.GetStatistics()
            ?? services.GetKeyedService<RabbitMqReceiver>(name)?.GetStatistics()
            ?? services.GetKeyedService<MassTransitReceiver>(name)?.GetStatistics();
    }

    private static Task WriteHealthAsync(HttpContext context, Microsoft.Extensions.Diagnostics.HealthChecks.HealthReport report) =>
        context.Response.WriteAsJsonAsync(new
        {
            Status = report.Status.ToString(),
            Checks = report.Entries.Select(entry => new { Name = entry.Key, Status = entry.Value.Status.ToString(), entry.Value.Description }),
        });
}
