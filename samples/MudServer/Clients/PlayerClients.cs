using BatchKit.Broadcast;
using BatchKit.Broadcast.Telnet;
using MudServer.Hosting;

namespace MudServer.Clients;

/// <summary>Lets players in: by telnet, and from the web page by WebSocket.</summary>
internal static class PlayerClients
{
    /// <summary>Where the web page connects to.</summary>
    public const string WebSocketPath = "/play";

    public static void Add(BatchKitBuilder input, MudOptions options)
    {
        input.Services.AddSingleton<ClientCount>();
        input.Services.AddSingleton<ArrivalWatch>();
        input.Services.AddHostedService<NodeAnnouncement>();
        input.AddBroadcast(broadcast => Set(broadcast, options)).Listen<PlayerConnection>(new BroadcastListenerOptions
        {
            Protocol = ClientProtocol.Telnet,
            EndPoint = new(options.Address, options.Port),
            Telnet = Telnet(options),
        });
    }

    public static void Map(WebApplication application) =>
        application.MapBatchKitWebSockets<PlayerConnection>(WebSocketPath, new WebSocketEndpointOptions { KeepsLineFeeds = true }, MudBuffers.Input);

    private static void Set(BroadcastOptions broadcast, MudOptions options)
    {
        broadcast.MaxConnections = options.MaxConnections;
        broadcast.MaxConnectionsPerAddress = options.MaxConnectionsPerAddress;
        broadcast.MaxRecordBytes = 4096;

        // More lines than anyone types; a pasted screen of text passes at once. A line that is too long is read to its end at a fair speed.
        broadcast.TextInputLimits = new InputLimits { RecordsPerSecond = 20, RecordBurst = 40, BytesPerSecond = 128 * 1024, ByteBurst = 512 * 1024 };

        // Time to read the welcome and to think of a name.
        broadcast.AuthenticationTimeout = TimeSpan.FromMinutes(3);

        // More than any one command can send.
        broadcast.MaxQueuedBytes = 8 * 1024 * 1024;
        broadcast.MaxQueuedMessages = 250_000;
        broadcast.DrainTimeout = TimeSpan.FromSeconds(5);
        broadcast.TurnAwayMessage = "The island is full. Come back later.\r\n";
        broadcast.GoodbyeMessage = "\r\nThe ferry is called in, and you with it. Goodbye!\r\n";
    }

    /// <summary>Without go-ahead, for nc, nothing but the game's own bytes is sent.</summary>
    private static TelnetOptions Telnet(MudOptions options)
    {
        var telnet = new TelnetOptions { RepeatsPrompt = true, SendsGoAhead = options.SendsGoAhead };
        if (!options.SendsGoAhead)
            telnet.Offered = TelnetFeatures.None;
        return telnet;
    }
}
