using BatchKit.IntegrationTests.MassTransit;
using BatchKit.MassTransit;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.RabbitMQ;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace BatchKit.IntegrationTests.Errors;

/// <summary>Errors between a process and a MassTransit bus.</summary>
internal static class MassTransitErrors
{
    private const string Prefix = "batchkit-errors-mt";

    public static async Task CollectAsync(RabbitMqServer server, ErrorCollector errors)
    {
        var closed = FreePort.Take(1)[0];
        errors.Name(closed, "PORT");
        errors.Name(server.Port, "PORT");
        await CollectHealthAsync("No broker at the address", MassTransitSome.Settings(server, Prefix, closed), errors);
        await CollectHealthAsync("A wrong password", MassTransitSome.Settings(server, Prefix, configure: static options => options.RabbitMq!.Password = "wrong"), errors);
        await using var node = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, Prefix, configure: static options => options.UnroutableGrace = TimeSpan.Zero));
        await errors.CatchAsync("A node without a receiver", () => SendAsync(node, bytes: 1));
        await using var inMemory = await MassTransitNode.StartReadyAsync(1, static options => (options.Prefix, options.UnroutableGrace, options.MaxFrameBytes) = (Prefix, TimeSpan.Zero, 4096),
            configureOutput: static options => options.MaxBatchBytes = 1024);
        await errors.CatchAsync("A node without a receiver in this process", () => SendAsync(inMemory, bytes: 1));
        await errors.CatchAsync("A batch above the largest frame", () => SendAsync(inMemory, bytes: 5000));
        errors.Catch("ReceiveFromMassTransit twice", static () => new ServiceCollection().AddBatchKit().ReceiveFromMassTransit(static _ => null!).ReceiveFromMassTransit(static _ => null!));
    }

    private static async Task CollectHealthAsync(string situation, Action<MassTransitOptions> configure, ErrorCollector errors)
    {
        await using var node = await MassTransitNode.StartAsync(1, configure);
        var description = "";
        await Until.TrueAsync(async () =>
        {
            var health = await node.CheckHealthAsync();
            description = health.Description!;
            return health is { Status: HealthStatus.Unhealthy, Exception: not null };
        });
        errors.Add(situation, description);
    }

    private static async Task SendAsync(MassTransitNode node, int bytes)
    {
        var batch = MessageBatch.Create(OutputHandle.Connection(9, 1), new ProducerId(1, 1, 0), 1, new BatchMessage(new byte[bytes]));
        await node.Transport.SendAsync(new[] { batch }, CancellationToken.None);
    }
}
