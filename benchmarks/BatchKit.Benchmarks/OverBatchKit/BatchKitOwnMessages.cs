using BatchKit.Benchmarks.Brokers;
using BatchKit.Benchmarks.Dolist;
using BatchKit.Benchmarks.OverMassTransit;
using MassTransit;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace BatchKit.Benchmarks.OverBatchKit;

/// <summary>A scope around each list, as one of the application's own messages over its own bus, for the consumer that it has: what docs/existing-consumers.md makes of a MUD.</summary>
internal sealed class BatchKitOwnMessages(MassTransitEnds ends, IHost sender) : IDolist
{
    private static readonly OutputHandle Player = OutputHandle.Connection(node: 1, sequence: 1);

    private readonly OutputBuffer _output = sender.Services.GetRequiredService<OutputBuffer>();

    public static async Task<BatchKitOwnMessages> StartAsync()
    {
        var ends = await MassTransitEnds.StartOnRabbitMqAsync();
        var address = await Broker.GetRabbitMqAsync();
        var builder = Host.CreateEmptyApplicationBuilder(settings: null);
        builder.Logging.SetMinimumLevel(LogLevel.Warning);
        builder.Services.AddOptions<MassTransitHostOptions>().Configure(options => options.WaitUntilStarted = true);
        builder.Services.AddMassTransit(setup => setup.UsingRabbitMq((_, bus) => MassTransitEnds.Connect(bus, address)));
        builder.Services.AddBatchKit().UseMassTransit<Payload>(batch => new Payload(batch.Payload.ToArray()));
        var sender = builder.Build();
        await sender.StartAsync();
        return new BatchKitOwnMessages(ends, sender);
    }

    public async Task RunAsync(int lists)
    {
        var arrived = ends.Arrival.ExpectAsync(lists);
        for (var list = 0; list < lists; list++)
        {
            using (_output.BeginBufferingScope(Player))
            {
                foreach (var line in Lines.All)
                    _output.Write(Player, line);
            }
        }

        await _output.FlushAsync(Player);
        await arrived;
    }

    public async ValueTask DisposeAsync()
    {
        await sender.StopAsync();
        sender.Dispose();
        await ends.DisposeAsync();
    }
}
