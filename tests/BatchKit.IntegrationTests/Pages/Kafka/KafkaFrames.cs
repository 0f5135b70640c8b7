using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.Pages.Kafka;

/// <summary>Code that docs/your-own-bus.md shows.</summary>
internal static class KafkaExample
{
    public static void Add(IServiceCollection services)
    {
        int[] nodes = [0, 1, 2]; // one partition each
        var sending = new ProducerConfig { BootstrapServers = "localhost:9092", Acks = Acks.All, EnableIdempotence = true, LingerMs = 0 };
        services.AddSingleton(_ => new ProducerBuilder<Null, byte[]>(sending).Build());
        services.AddBatchKit(options => options.Node = 1)
            .UseFrameTransport(
                provider => (frame, cancellationToken) =>
                {
                    var producer = provider.GetRequiredService<IProducer<Null, byte[]>>();
                    var message = new Message<Null, byte[]> { Value = frame.Bytes.ToArray() };
                    var partitions = frame.Destination.IsAll ? nodes : [frame.Destination.Node];
                    return new(Task.WhenAll(partitions.Select(node => producer.ProduceAsync(new TopicPartition("frames", node), message, cancellationToken))));
                },
                options => (options.BusName, options.MaxFrameBytes) = ("Kafka", 900_000)) // below message.max.bytes
            .AddFrameReceiver(provider => provider.GetRequiredService<MySockets>());
        services.AddHostedService<KafkaFrames>();
    }
}

internal sealed class KafkaFrames(FrameReceiver receiver, NodeNumber number) : BackgroundService
{
    protected override Task ExecuteAsync(CancellationToken stoppingToken) => Task.Run(async () =>
    {
        var settings = new ConsumerConfig { BootstrapServers = "localhost:9092", GroupId = $"node-{number.Value}", EnableAutoOffsetStore = false };
        (settings.AutoOffsetReset, settings.MaxPollIntervalMs) = (AutoOffsetReset.Earliest, 600_000); // above what a delivery may take
        using var consumer = new ConsumerBuilder<Ignore, byte[]>(settings).Build();
        consumer.Assign(new TopicPartition("frames", number.Value));
        while (consumer.Consume(stoppingToken) is { } result)
        {
            await receiver.ReceiveAsync(result.Message.Value, stoppingToken);
            consumer.StoreOffset(result);
        }
    }, stoppingToken);
}
