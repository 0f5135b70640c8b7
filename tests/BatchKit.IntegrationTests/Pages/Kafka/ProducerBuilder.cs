using System.Collections.Concurrent;

namespace BatchKit.IntegrationTests.Pages.Kafka;

/// <summary>The part of the Kafka client that the page's example calls, with its names and parameters, over topics in memory: the client itself can't be restored from every feed.</summary>
internal sealed class ProducerBuilder<TKey, TValue>(ProducerConfig config)
{
    public IProducer<TKey, TValue> Build() => new Producer(config.BootstrapServers!);

    private sealed class Producer(string servers) : IProducer<TKey, TValue>
    {
        public Task ProduceAsync(TopicPartition partition, Message<TKey, TValue> message, CancellationToken cancellationToken = default)
        {
            Topics.Of(servers, partition).Add((byte[])(object)message.Value!, cancellationToken);
            return Task.CompletedTask;
        }
    }
}

internal interface IProducer<TKey, TValue>
{
    Task ProduceAsync(TopicPartition partition, Message<TKey, TValue> message, CancellationToken cancellationToken = default);
}

internal sealed class ConsumerBuilder<TKey, TValue>(ConsumerConfig config)
{
    public Consumer<TValue> Build() => new(config.BootstrapServers!);
}

internal sealed class Consumer<TValue>(string servers) : IDisposable
{
    private BlockingCollection<byte[]> _partition = [];

    public void Assign(TopicPartition partition) => _partition = Topics.Of(servers, partition);

    public ConsumeResult<TValue> Consume(CancellationToken cancellationToken = default) => new(new Message<Ignore, TValue> { Value = (TValue)(object)_partition.Take(cancellationToken) });

    public void StoreOffset(ConsumeResult<TValue> result) => ArgumentNullException.ThrowIfNull(result);

    public void Dispose()
    {
    }
}

internal sealed record ConsumeResult<TValue>(Message<Ignore, TValue> Message);

internal sealed record TopicPartition(string Topic, int Partition);

internal sealed class Message<TKey, TValue>
{
    public TKey? Key { get; set; }

    public TValue? Value { get; set; }
}

internal sealed class Null;

internal sealed class Ignore;

internal enum Acks
{
    None = 0,
    All = -1,
}

internal enum AutoOffsetReset
{
    Latest = 0,
    Earliest = 1,
}

internal sealed class ProducerConfig
{
    public string? BootstrapServers { get; set; }

    public Acks? Acks { get; set; }

    public bool? EnableIdempotence { get; set; }

    public double? LingerMs { get; set; }
}

internal sealed class ConsumerConfig
{
    public string? BootstrapServers { get; set; }

    public string? GroupId { get; set; }

    public bool? EnableAutoOffsetStore { get; set; }

    public AutoOffsetReset? AutoOffsetReset { get; set; }

    public int? MaxPollIntervalMs { get; set; }
}

internal static class Topics
{
    private static readonly ConcurrentDictionary<(string Servers, TopicPartition Partition), BlockingCollection<byte[]>> All = new();

    public static BlockingCollection<byte[]> Of(string servers, TopicPartition partition) => All.GetOrAdd((servers, partition), _ => []);
}
