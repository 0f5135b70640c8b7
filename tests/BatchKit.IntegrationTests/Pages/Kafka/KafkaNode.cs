using BatchKit.Testing;
using Confluent.Kafka;

namespace BatchKit.IntegrationTests.Pages.Kafka;

/// <summary>A process with the page's example for Kafka.</summary>
internal sealed class KafkaNode(int node, string servers) : FrameNode(node, services => KafkaExample.Add(services, node, servers))
{
    public static Task<KafkaNode> StartAsync(int node, string servers) => StartAsync(new KafkaNode(node, servers));

    protected override Task<bool> IsKnownAsync()
    {
        using var consumer = new ConsumerBuilder<Ignore, Ignore>(new ConsumerConfig { BootstrapServers = servers, GroupId = $"node-{Node}" }).Build();
        return Task.FromResult(consumer.Committed([new TopicPartition("frames", Node)], Deadline.Time).Single().Offset != Offset.Unset);
    }
}
