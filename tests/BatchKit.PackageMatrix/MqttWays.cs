using System.Net;
using BatchKit.Mqtt;
using BatchKit.MQTTnet;
using BatchKit.TestServers.Network;
using Microsoft.Extensions.DependencyInjection;
using MQTTnet;
using MQTTnet.Formatter;
using MQTTnet.Server;

namespace BatchKit.PackageMatrix;

internal static class MqttWays
{
    public static IEnumerable<Way> All(Servers servers) => [Own(servers), ApplicationsClient(servers), ApplicationsServer()];

    private static Way Own(Servers servers)
    {
        var topic = Ways.Name();
        return new Way("MQTT, its own client", OutputHandle.Named(topic), services => services.AddBatchKit().UseMqtt(options => options.Server = servers.Mosquitto.Address).ReceiveFromMqtt<ArrivalHandler>(Below(topic)));
    }

    private static Way ApplicationsClient(Servers servers)
    {
        var topic = Ways.Name();
        var client = new MqttClientFactory().CreateMqttClient(new BatchedWriteClientAdapterFactory());
        return new Way("MQTT, the application's MQTTnet client", OutputHandle.Named(topic), services =>
            services.AddBatchKit().UseMqttClient(_ => client).ReceiveFromMqtt<ArrivalHandler>(options => Receive(options, servers.Mosquitto.Address, topic)))
        {
            ReadyAsync = (_, cancellationToken) => client.ConnectAsync(
                new MqttClientOptionsBuilder().WithTcpServer(servers.Mosquitto.Host, servers.Mosquitto.Port).WithProtocolVersion(MqttProtocolVersion.V500).Build(), cancellationToken),
            AfterAsync = () =>
            {
                client.Dispose();
                return Task.CompletedTask;
            },
        };
    }

    private static Way ApplicationsServer()
    {
        var topic = Ways.Name();
        var port = FreePort.Take(1)[0];
        var server = new MqttServerFactory().CreateMqttServer(new MqttServerOptionsBuilder().WithDefaultEndpoint().WithDefaultEndpointPort(port)
            .WithDefaultEndpointBoundIPAddress(IPAddress.Loopback).WithDefaultEndpointBoundIPV6Address(IPAddress.None).Build());
        return new Way("MQTT, the application's MQTTnet server", OutputHandle.Named(topic), services =>
            services.AddBatchKit().UseMqttServer(_ => server).ReceiveFromMqtt<ArrivalHandler>(options => Receive(options, new Uri($"mqtt://127.0.0.1:{port}"), topic)))
        {
            BeforeAsync = server.StartAsync,
            AfterAsync = async () =>
            {
                await server.StopAsync();
                server.Dispose();
            },
        };
    }

    private static Action<MqttOptions> Below(string topic) => options => options.Subscriptions.Add(new MqttSubscription { Filter = topic });

    private static void Receive(MqttOptions options, Uri server, string topic)
    {
        options.Server = server;
        Below(topic)(options);
    }
}
