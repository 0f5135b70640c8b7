using System.Globalization;
using System.Net;
using BatchKit.Broadcast;
using BatchKit.TestServers.HostWorker;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace BatchKit.HostWorker;

/// <summary>Hands what a client says to the game, with the number of its connection.</summary>
internal sealed class GatewayHandler(ClientConnection connection, IOutputBuffer output, GatewaySettings settings) : IConnectionHandler
{
    private readonly OutputHandle _game = OutputHandle.Connection(settings.Game, 1);

    public async ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
    {
        await using var scope = output.BeginBufferingScope(_game);
        foreach (var record in records.ToArray())
            output.Write(_game, $"{connection.Handle.Number} {record.GetText()}");
    }

    public async ValueTask EndAsync(DisconnectReason reason) => await output.WriteAsync(_game, $"{connection.Handle.Number} ");
}

/// <summary>A gateway, until it is killed.</summary>
internal static class GatewayProgram
{
    private const int MaxClients = 10_000;

    public static async Task<int> RunAsync(GatewaySettings settings)
    {
        var application = Host.CreateApplicationBuilder();
        application.Logging.SetMinimumLevel(LogLevel.Warning);
        application.Services.AddSingleton(settings);
        application.Services.AddBatchKit(options => options.Node = settings.Node)
            .SendTo(settings.Path, settings.Game)
            .ReceiveFrom(settings.Path, settings.Node, static services => services.GetRequiredService<BroadcastTransport>())
            .AddBroadcast(static options => (options.MaxConnections, options.MaxConnectionsPerAddress, options.TextInputLimits) = (MaxClients, MaxClients, null))
            .Listen<GatewayHandler>(new BroadcastListenerOptions { EndPoint = new IPEndPoint(IPAddress.Loopback, 0) });
        using var host = application.Build();
        await host.StartAsync();
        var port = host.Services.GetRequiredKeyedService<BroadcastListener>(string.Empty).EndPoint.Port;
        await Console.Out.WriteLineAsync(string.Create(CultureInfo.InvariantCulture, $"port {port}"));
        await host.WaitForShutdownAsync();
        return 0;
    }
}
