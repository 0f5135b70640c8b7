using System.Net;
using BatchKit.MQTTnet;
using MQTTnet.Server;

namespace BatchKit.Benchmarks.OverMQTTnet;

/// <summary>Starts MQTTnet's server.</summary>
internal static class MqttNetServers
{
    /// <param name="port">Where it listens, on loopback.</param>
    /// <param name="maxPending">The messages that it keeps for a client; its own default where null.</param>
    /// <param name="isBatched">True lets BatchKit's adapter listen in place of MQTTnet's.</param>
    public static MqttServer Start(int port, int? maxPending = null, bool isBatched = false)
    {
        var options = new MqttServerOptionsBuilder().WithDefaultEndpoint().WithDefaultEndpointPort(port).WithDefaultEndpointBoundIPAddress(IPAddress.Loopback)
            .WithDefaultEndpointBoundIPV6Address(IPAddress.None);
        if (maxPending is { } limit)
            options.WithMaxPendingMessagesPerClient(limit);
        var factory = new MqttServerFactory();
        var server = isBatched ? factory.CreateMqttServer(options.Build(), [new BatchedWriteServerAdapter()]) : factory.CreateMqttServer(options.Build());
        server.StartAsync().GetAwaiter().GetResult();
        return server;
    }
}
