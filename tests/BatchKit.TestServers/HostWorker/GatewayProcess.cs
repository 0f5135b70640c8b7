using System.Net;
using System.Text.Json;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.HostWorker;

/// <summary>What a gateway's process should do; it travels as its second argument.</summary>
/// <param name="Path">The broker.</param>
/// <param name="Node">The gateway's node.</param>
/// <param name="Game">The node that gets what clients say.</param>
public sealed record GatewaySettings(BrokerPath Path, int Node, int Game)
{
    /// <summary>The first argument.</summary>
    public const string Command = "gateway";

    /// <summary>Reads a process's arguments.</summary>
    public static GatewaySettings Parse(string settings) => JsonSerializer.Deserialize<GatewaySettings>(settings)!;
}

/// <summary>A gateway for TCP clients as a child process, to be killed. Dispose it: that kills it.</summary>
/// <remarks>Each line of a client goes to connection 1 of the game's node, behind the number of its own connection and a space; an empty line tells that the connection has ended.</remarks>
public sealed class GatewayProcess : SampleProcess
{
    private GatewayProcess(GatewaySettings settings)
        : base("BatchKit.HostWorker", [GatewaySettings.Command, JsonSerializer.Serialize(settings)])
    {
    }

    /// <summary>Where it listens.</summary>
    public IPEndPoint EndPoint => new(IPAddress.Loopback, (int)ReadCount("port"));

    /// <summary>Starts it and waits until it listens.</summary>
    /// <param name="settings">What it should do.</param>
    public static Task<GatewayProcess> StartAsync(GatewaySettings settings) => WhenUpAsync(new GatewayProcess(settings), "port ");
}
