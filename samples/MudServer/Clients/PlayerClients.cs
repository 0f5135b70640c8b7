using System.Globalization;
using BatchKit.Broadcast;
using BatchKit.Broadcast.Telnet;
using MudServer.Hosting;

namespace MudServer.Clients;

/// <summary>Accepts players by telnet, and by WebSocket from the web page.</summary>
internal static class PlayerClients
{
    /// <summary>The path of the WebSocket that the web page connects to.</summary>
    public const string WebSocketPath = "/play";

    public static void Add(BatchKitBuilder input, MudOptions options)
    {
        var clients = new ConnectedClients();
        input.Services.AddSingleton(clients);
        input.Services.AddSingleton<ArrivalWatch>();
        input.Services.AddSingleton<ShardInputs>();
        input.Services.AddHostedService<NodeAnnouncement>();
        input.AddBroadcast(broadcast => Set(broadcast, options)).Listen<PlayerConnection>(new BroadcastListenerOptions
        {
            Protocol = ClientProtocol.Telnet,
            EndPoint = new(options.Address, options.Port),
            Telnet = Telnet(options, clients),
        });

        // After the clients' own service, so that it stops before that one.
        if (options.Role == MudRole.Gateway)
            input.Services.AddHostedService<GatewayDrain>();
    }

    public static void Map(WebApplication application) =>
        application.MapBatchKitWebSockets<PlayerConnection>(WebSocketPath, new WebSocketEndpointOptions { KeepsLineFeeds = true }, MudBuffers.Input);

    private static void Set(BroadcastOptions broadcast, MudOptions options)
    {
        broadcast.MaxConnections = options.MaxConnections;
        broadcast.MaxConnectionsPerAddress = options.MaxConnectionsPerAddress;
        broadcast.MaxRecordBytes = 4096;

        // A line that is too long is read to its end at the rate of bytes. A WebSocket's message is one record however many lines it has, so its lines are counted again.
        broadcast.TextInputLimits = new InputLimits { RecordsPerSecond = LinePace.LinesPerSecond, RecordBurst = LinePace.LineBurst, BytesPerSecond = 128 * 1024, ByteBurst = 512 * 1024 };

        // The time to read the welcome and to choose a name.
        broadcast.AuthenticationTimeout = TimeSpan.FromMinutes(3);

        // More than one command can send.
        broadcast.MaxQueuedBytes = 8 * 1024 * 1024;
        broadcast.MaxQueuedMessages = 250_000;
        broadcast.DrainTimeout = TimeSpan.FromSeconds(5);
        broadcast.TurnAwayMessage = "The island is full. Come back later.\r\n";
        broadcast.GoodbyeMessage = "\r\nThe ferry is called in, and you with it. Goodbye!\r\n";
    }

    /// <summary>Without go-ahead the server offers no telnet options, because nc would show their bytes.</summary>
    private static TelnetOptions Telnet(MudOptions options, ConnectedClients clients)
    {
        var telnet = new TelnetOptions { RepeatsPrompt = true, SendsGoAhead = options.SendsGoAhead, ServerStatus = ServerStatus(clients) };
        if (!options.SendsGoAhead)
            telnet.Offered = TelnetFeatures.None;
        return telnet;
    }

    /// <summary>What MUD lists want to know (MSSP). The players are those of this process.</summary>
    private static Func<IEnumerable<KeyValuePair<string, string>>> ServerStatus(ConnectedClients clients)
    {
        var startedAt = TimeProvider.System.GetUtcNow().ToUnixTimeSeconds().ToString(CultureInfo.InvariantCulture);
        return () => [new("NAME", "Lantern Isle"), new("PLAYERS", clients.CountPlayers().ToString(CultureInfo.InvariantCulture)), new("UPTIME", startedAt), new("CODEBASE", "BatchKit MudServer")];
    }
}
