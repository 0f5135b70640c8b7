using BatchKit.MQTTnet;
using BatchKit.MQTTnet.Tests.Support;
using BatchKit.Testing;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using MQTTnet;
using MQTTnet.Protocol;

namespace BatchKit.IntegrationTests.Errors;

/// <summary>Errors between a process and the MQTTnet client or server of its application.</summary>
internal static class MqttNetErrors
{
    public static async Task CollectAsync(ErrorCollector errors)
    {
        await CollectOptionsAsync(errors);
        await CollectClientAsync(errors);
        await CollectServerAsync(errors);
    }

    private static async Task CollectOptionsAsync(ErrorCollector errors)
    {
        await errors.CatchAsync("Settings of the client outside their ranges", static () => StartAsync(static builder => builder.UseMqttClient(static _ => new ScriptedClient(), static options =>
        {
            (options.PublishWindow, options.ReceiveMaximum) = (0, 0);
            options.QualityOfService = MqttQualityOfServiceLevel.ExactlyOnce;
            options.Expiry = TimeSpan.Zero;
        })));
        await using var made = TestServer.Make();
        await errors.CatchAsync("Settings of the server outside their ranges", () => StartAsync(builder => builder.UseMqttServer(_ => made.Server, static options =>
        {
            (options.MaxPendingMessagesPerClient, options.SenderClientId) = (0, "");
            options.SlowSubscriberTimeout = TimeSpan.Zero;
            options.QualityOfService = MqttQualityOfServiceLevel.ExactlyOnce;
        })));
        errors.Catch("A client and a server on one buffer", () => new ServiceCollection().AddBatchKit().UseMqttClient(static _ => new ScriptedClient()).UseMqttServer(_ => made.Server));
    }

    private static async Task CollectClientAsync(ErrorCollector errors)
    {
        using var client = new ScriptedClient();
        using var transport = new MqttClientTransport(client);
        await errors.CatchAsync("Output for a connection", () => SendAsync(transport, OutputHandle.Connection(node: 1, sequence: 1)));
        await errors.CatchAsync("A topic with a wildcard", () => SendAsync(transport, OutputHandle.Named("a/#")));
        await errors.CatchAsync("A topic of the broker's", () => SendAsync(transport, OutputHandle.Named("$SYS/a")));
        await errors.CatchAsync("A message that is null", () => transport.PublishManyAsync(new MqttApplicationMessage[] { null! }).AsTask());
        errors.Add("A message of the application without a topic", (await transport.PublishManyAsync(new[] { new MqttApplicationMessage() }))[0].Reason!);
        client.IsConnected = false;
        await errors.CatchAsync("A client that is not connected", () => SendAsync(transport, OutputHandle.Named("a")));
    }

    private static async Task CollectServerAsync(ErrorCollector errors)
    {
        await using var made = TestServer.Make();
        using var transport = new MqttServerTransport(made.Server);
        await errors.CatchAsync("A server that is not started", () => transport.SendAsync(new[] { Some.Batch(OutputHandle.Named("a"), Some.Producer(), 1, "x") }, CancellationToken.None).AsTask());
    }

    private static Task SendAsync(MqttClientTransport transport, OutputHandle handle) =>
        transport.SendAsync(new[] { Some.Batch(handle, Some.Producer(), 1, "x") }, CancellationToken.None).AsTask();

    private static async Task StartAsync(Action<BatchKitBuilder> register)
    {
        var builder = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        register(builder.Services.AddBatchKit());
        using var host = builder.Build();
        await host.StartAsync();
    }
}
