using System.Net;
using MQTTnet.Server;

namespace BatchKit.Benchmarks.OverMQTTnet;

/// <summary>Starts MQTTnet's server.</summary>
internal static class MqttNetServers
{
    /// <param name="port">Where it listens, on loopback.</param>
    /// <param name="maxPending">The messages that it keeps for a client; its own default where null.</param>
    public static MqttServer Start(int port, int? maxPending = null)
    {
        var options = new MqttServerOptionsBuilder().WithDefaultEndpoint().WithDefaultEndpointPort(port).WithDefaultEndpointBoundIPAddress(IPAddress.Loopback)
            .WithDefaultEndpointBoundIPV6Address(IPAddress.None);
        if (maxPending is { } limit)
            options.WithMaxPendingMessagesPerClient(limit);
        var server = new MqttServerFactory().CreateMqttServer(options.Build());
        server.StartAsync().GetAwaiter().GetResult();
        return server;
    }
}
