using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.RabbitMQ;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using RabbitMQ.Client;

namespace BatchKit.IntegrationTests.Errors;

/// <summary>Errors between a process and RabbitMQ.</summary>
internal static class RabbitMqErrors
{
    private const string Prefix = "batchkit-errors";

    public static async Task CollectAsync(RabbitMqServer server, ErrorCollector errors)
    {
        var closed = FreePort.Take(1)[0];
        errors.Name(closed, "PORT");
        errors.Name(server.Port, "PORT");
        await errors.CatchAsync("No broker at the address", () => SendAsync(server, options => options.Hosts = [$"127.0.0.1:{closed}"]));
        await errors.CatchAsync("A host that does not exist", () => SendAsync(server, static options => options.Hosts = ["broker.invalid"]));
        await errors.CatchAsync("A wrong password", () => SendAsync(server, static options => options.Password = "wrong"));
        await errors.CatchAsync("A virtual host that does not exist", () => SendAsync(server, static options => options.VirtualHost = "nowhere"));
        await errors.CatchAsync("TLS to a port without it", () => SendAsync(server, static options => options.UseTls = true));
        await errors.CatchAsync("A node without a receiver", () => SendAsync(server, static options => options.UnroutableGrace = TimeSpan.Zero));
        await errors.CatchAsync("A topology that is taken as given and is missing", () => SendAsync(server, static options => (options.Prefix, options.DeclareTopology) = ("batchkit-missing", false)));
        await errors.CatchAsync("A batch above the largest frame", () => SendAsync(server, static options => options.MaxFrameBytes = 4096, bytes: 5000));
        await errors.CatchAsync("Frames that are smaller than a batch", () => StartAsync(static options => options.MaxFrameBytes = 4096));
        errors.Catch("UseRabbitMq twice", static () => new ServiceCollection().AddBatchKit().UseRabbitMq().UseRabbitMq());
        await CollectReceiverAsync(server, errors);
    }

    private static async Task CollectReceiverAsync(RabbitMqServer server, ErrorCollector errors)
    {
        var options = RabbitMqSome.Options(server, static options => (options.Prefix, options.QueueExpiry) = (Prefix, TimeSpan.FromMinutes(1)));
        var factory = new ConnectionFactory { Uri = server.Address };
        await using var connection = await factory.CreateConnectionAsync();
        await using var channel = await connection.CreateChannelAsync();
        await channel.QueueDeleteAsync($"{Prefix}.node.7");
        await channel.QueueDeclareAsync($"{Prefix}.node.7", durable: true, exclusive: false, autoDelete: false);
        await using var receiver = new RabbitMqReceiver(options, 7, new BatchReceiver(new CollectingTransport()));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await Until.TrueAsync(() => receiver.Fault is not null);
        errors.Add("A queue that exists with other arguments", receiver.Fault!);
        await channel.QueueDeleteAsync($"{Prefix}.node.7");
    }

    private static async Task SendAsync(RabbitMqServer server, Action<RabbitMqOptions> change, int bytes = 1)
    {
        await using var transport = new RabbitMqTransport(RabbitMqSome.Options(server, options =>
        {
            options.Prefix = Prefix;
            change(options);
        }));
        var batch = MessageBatch.Create(OutputHandle.Connection(9, 1), new ProducerId(1, 1, 0), 1, new BatchMessage(new byte[bytes]));
        await transport.SendAsync(new[] { batch }, CancellationToken.None);
    }

    private static async Task StartAsync(Action<RabbitMqOptions> configure)
    {
        var builder = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        builder.Services.AddBatchKit().UseRabbitMq(configure);
        using var host = builder.Build();
        await host.StartAsync();
    }
}
