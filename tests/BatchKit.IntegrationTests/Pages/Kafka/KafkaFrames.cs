using BatchKit.Transports;
using Confluent.Kafka;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.Pages.Kafka;

/// <summary>Code that docs/your-own-bus.md shows.</summary>
internal static class KafkaExample
{
    public static void Add(IServiceCollection services, int node, string servers)
    {
        int[] nodes = [0, 1, 2]; // one partition each
        var sending = new ProducerConfig { BootstrapServers = servers, Acks = Acks.All, EnableIdempotence = true, LingerMs = 0 };
        services.AddSingleton(_ => new ProducerBuilder<Null, byte[]>(sending).Build());
        services.AddBatchKit(options => options.Node = node)
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
        services.AddHostedService(provider => ActivatorUtilities.CreateInstance<KafkaFrames>(provider, servers));
    }
}

internal sealed class KafkaFrames(string servers, FrameReceiver receiver, NodeNumber number) : BackgroundService
{
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(30);

    protected override Task ExecuteAsync(CancellationToken stoppingToken) => Task.Run(() => ReceiveAsync(stoppingToken), stoppingToken);

    private async Task ReceiveAsync(CancellationToken stoppingToken)
    {
        var settings = new ConsumerConfig { BootstrapServers = servers, GroupId = $"node-{number.Value}", EnableAutoOffsetStore = false };
        settings.MaxPollIntervalMs = 600_000; // above what a delivery may take
        using var consumer = new ConsumerBuilder<Ignore, byte[]>(settings).Build();
        try
        {
            consumer.Assign(FindStart(consumer));
            while (consumer.Consume(stoppingToken) is { } result)
            {
                await receiver.ReceiveAsync(result.Message.Value, stoppingToken);
                consumer.StoreOffset(result);
            }
        }
        finally
        {
            consumer.Close(); // commits what is stored
        }
    }

    private TopicPartitionOffset FindStart(IConsumer<Ignore, byte[]> consumer)
    {
        var partition = new TopicPartition("frames", number.Value);
        var start = consumer.Committed([partition], Limit).Single();
        if (start.Offset != Offset.Unset)
            return start;
        start = new TopicPartitionOffset(partition, consumer.QueryWatermarkOffsets(partition, Limit).High);
        consumer.Commit([start]); // a node that never ran before gets no earlier output
        return start;
    }
}
