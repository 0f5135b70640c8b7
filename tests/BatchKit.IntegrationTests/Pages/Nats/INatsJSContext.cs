using System.Runtime.CompilerServices;
using System.Threading.Channels;

namespace BatchKit.IntegrationTests.Pages.Nats;

/// <summary>The part of the NATS client that the page's example calls, with its names and parameters, over a stream in memory: the client itself can't be restored from every feed.</summary>
internal interface INatsJSContext
{
    ValueTask CreateOrUpdateStreamAsync(StreamConfig config, CancellationToken cancellationToken = default);

    ValueTask<NatsJSConsumer> CreateOrUpdateConsumerAsync(string stream, ConsumerConfig config, CancellationToken cancellationToken = default);

    ValueTask<PubAckResponse> PublishAsync(string subject, ReadOnlyMemory<byte> data, CancellationToken cancellationToken = default);
}

internal sealed record NatsOpts
{
    public string Url { get; init; } = "nats://localhost:4222";
}

internal sealed class NatsConnection(NatsOpts opts)
{
    public NatsOpts Opts { get; } = opts;
}

internal sealed class NatsJSContext(NatsConnection connection) : INatsJSContext
{
    // Guards the fields below, and the publication to all consumers.
    private readonly Lock _lock = new();
    private readonly List<(string Subject, byte[] Data)> _stream = [];
    private readonly List<NatsJSConsumer> _consumers = [];

    public NatsConnection Connection { get; } = connection;

    public ValueTask CreateOrUpdateStreamAsync(StreamConfig config, CancellationToken cancellationToken = default) => ValueTask.CompletedTask;

    public ValueTask<NatsJSConsumer> CreateOrUpdateConsumerAsync(string stream, ConsumerConfig config, CancellationToken cancellationToken = default)
    {
        var consumer = new NatsJSConsumer(config.FilterSubjects ?? []);
        lock (_lock)
        {
            foreach (var (subject, data) in _stream)
                consumer.Offer(subject, data);
            _consumers.Add(consumer);
        }

        return ValueTask.FromResult(consumer);
    }

    public ValueTask<PubAckResponse> PublishAsync(string subject, ReadOnlyMemory<byte> data, CancellationToken cancellationToken = default)
    {
        lock (_lock)
        {
            _stream.Add((subject, data.ToArray()));
            foreach (var consumer in _consumers)
                consumer.Offer(subject, _stream[^1].Data);
        }

        return ValueTask.FromResult(new PubAckResponse());
    }
}

internal sealed record StreamConfig(string Name, ICollection<string> Subjects)
{
    public TimeSpan MaxAge { get; init; }
}

internal sealed record ConsumerConfig(string DurableName)
{
    public ICollection<string>? FilterSubjects { get; init; }

    public long MaxAckPending { get; init; }

    public TimeSpan AckWait { get; set; }
}

internal sealed class PubAckResponse
{
    public void EnsureSuccess()
    {
    }
}

internal sealed class NatsJSConsumer(ICollection<string> subjects)
{
    private readonly Channel<byte[]> _messages = Channel.CreateUnbounded<byte[]>();

    public void Offer(string subject, byte[] data)
    {
        if (subjects.Contains(subject))
            _messages.Writer.TryWrite(data);
    }

    public async IAsyncEnumerable<NatsJSMsg<T>> ConsumeAsync<T>([EnumeratorCancellation] CancellationToken cancellationToken = default)
    {
        await foreach (var data in _messages.Reader.ReadAllAsync(cancellationToken))
            yield return new NatsJSMsg<T>((T)(object)data);
    }
}

internal sealed record NatsJSMsg<T>(T? Data)
{
    public ValueTask AckAsync(CancellationToken cancellationToken = default) => ValueTask.CompletedTask;
}
