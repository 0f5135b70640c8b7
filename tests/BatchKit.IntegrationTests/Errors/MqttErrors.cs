using BatchKit.IntegrationTests.Mqtt;
using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;
using BatchKit.TestServers.Network;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.Errors;

/// <summary>Errors between a process and an MQTT broker.</summary>
internal static class MqttErrors
{
    public static async Task CollectAsync(MosquittoServer server, ErrorCollector errors)
    {
        var closed = FreePort.Take(1)[0];
        errors.Name(closed, "PORT");
        errors.Name(server.Port, "PORT");
        await CollectFaultAsync("No broker at the address", new MqttAccess("mqtt", closed), errors);
        await CollectFaultAsync("A host that does not exist", new MqttAccess("mqtt", closed, configure: static options => options.Server = new Uri("mqtt://broker.invalid")), errors);
        await CollectFaultAsync("TLS to a port without it", new MqttAccess("mqtts", server.Port), errors, hasRandomCause: true);
        await CollectFaultAsync("WebSocket to a port without it", new MqttAccess("ws", server.Port), errors, hasRandomCause: true);
        await using (var own = await MosquittoServer.StartOwnAsync(new MosquittoServerOptions { UserName = "game", Password = "right" }))
        {
            errors.Name(own.Port, "PORT");
            await using var wrong = new MqttAccess("mqtt", own.Port, configure: static options => (options.UserName, options.Password) = ("game", "wrong"));
            errors.Add("A wrong password", $"{nameof(MqttConnectException)}: {(await wrong.RefuseAsync()).Message}");
        }

        await errors.CatchAsync("Topics that can't be published to", () => SendAsync(server, "a/#"));
        await errors.CatchAsync("Output for a connection outside envelope mode", () => SendAsync(server, topic: null));
        await errors.CatchAsync("A receiver without subscriptions", static () => StartAsync(static builder => builder.UseMqtt().ReceiveFromMqtt(static _ => new CollectingTransport())));
        await errors.CatchAsync("A receiver over 3.1.1 without a client id", static () => StartAsync(static builder => builder.UseMqtt().ReceiveFromMqtt(static _ => new CollectingTransport(), static options =>
        {
            options.Version = MqttVersion.V311;
            options.Subscriptions.Add(new MqttSubscription { Filter = "a" });
        })));
        await errors.CatchAsync("Packets that are smaller than a message", static () => StartAsync(static builder => builder.UseMqtt(static options => options.MaxPacketBytes = 4096)));
    }

    private static async Task CollectFaultAsync(string situation, MqttAccess access, ErrorCollector errors, bool hasRandomCause = false)
    {
        await using (access)
        {
            var text = await access.FailAsync();
            // The cause behind the first sentence, a reset or an end, depends on who is faster.
            errors.Add(situation, hasRandomCause ? text[..(text.IndexOf(". ", StringComparison.Ordinal) + 1)] : text);
        }
    }

    private static async Task SendAsync(MosquittoServer server, string? topic)
    {
        await using var transport = new MqttTransport(new MqttOptions { Server = new Uri($"mqtt://127.0.0.1:{server.Port}") });
        var handle = topic is null ? OutputHandle.Connection(9, 1) : OutputHandle.Named(topic);
        await transport.SendAsync(new[] { MessageBatch.Create(handle, new ProducerId(1, 1, 0), 1, new BatchMessage(new byte[1])) }, CancellationToken.None);
    }

    private static async Task StartAsync(Action<BatchKitBuilder> register)
    {
        var builder = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        register(builder.Services.AddBatchKit());
        using var host = builder.Build();
        await host.StartAsync();
    }
}
