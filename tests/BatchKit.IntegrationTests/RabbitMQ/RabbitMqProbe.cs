using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.RabbitMQ;
using BatchKit.Transports;
using RabbitMQ.Client;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>A connection of the test's own to the broker: looks at queues, listens on the wire, and publishes what no transport would.</summary>
internal sealed class RabbitMqProbe : IAsyncDisposable
{
    private readonly IConnection _connection;
    private readonly IChannel _channel;

    private RabbitMqProbe(IConnection connection, IChannel channel)
    {
        _connection = connection;
        _channel = channel;
    }

    public static async Task<RabbitMqProbe> ConnectAsync(RabbitMqServer server)
    {
        var connection = await new ConnectionFactory { Uri = server.Address, AutomaticRecoveryEnabled = false }.CreateConnectionAsync();
        return new RabbitMqProbe(connection, await connection.CreateChannelAsync(new CreateChannelOptions(true, true)));
    }

    /// <summary>Makes a queue that gets all frames of the given keys beside their receivers, and returns its name.</summary>
    public async Task<string> ListenAsync(RabbitMqOptions options, params string[] keys)
    {
        await _channel.ExchangeDeclareAsync($"{options.Prefix}.direct", ExchangeType.Direct, durable: true);
        var queue = (await _channel.QueueDeclareAsync(Some.Name("probe"), durable: true, exclusive: false, autoDelete: false,
            new Dictionary<string, object?>(StringComparer.Ordinal) { ["x-expires"] = 600_000L })).QueueName;
        foreach (var key in keys)
            await _channel.QueueBindAsync(queue, $"{options.Prefix}.direct", key);
        return queue;
    }

    public Task<uint> CountAsync(string queue) => _channel.MessageCountAsync(queue);

    /// <summary>Makes a queue that gets what receivers with these options reject.</summary>
    public async Task<string> ListenForDeadLettersAsync(RabbitMqOptions options)
    {
        await _channel.ExchangeDeclareAsync(options.DeadLetterExchange!, ExchangeType.Fanout, durable: true);
        var queue = (await _channel.QueueDeclareAsync(Some.Name("dead"), durable: true, exclusive: false, autoDelete: false)).QueueName;
        await _channel.QueueBindAsync(queue, options.DeadLetterExchange!, string.Empty);
        return queue;
    }

    /// <summary>Waits until so many frames wait in a queue.</summary>
    public Task WaitForCountAsync(string queue, uint count) => Until.TrueAsync(async () => await CountAsync(queue) == count);

    /// <summary>Takes the frames that a queue holds, in order.</summary>
    public async Task<IReadOnlyList<CollectedFrame>> TakeFramesAsync(string queue)
    {
        var frames = new List<CollectedFrame>();
        while (await _channel.BasicGetAsync(queue, autoAck: true) is { } message)
        {
            using var frame = FrameReader.Read(message.Body);
            var texts = frame.Batches.ToArray().SelectMany(Texts).ToArray();
            frames.Add(new CollectedFrame(message.RoutingKey, message.BasicProperties, texts));
        }

        return frames;
    }

    /// <summary>Publishes bytes as they are.</summary>
    public async Task PublishAsync(RabbitMqOptions options, string key, byte[] body) =>
        await _channel.BasicPublishAsync($"{options.Prefix}.direct", key, mandatory: true, new BasicProperties(), body);

    public Task DeleteQueueAsync(string queue) => _channel.QueueDeleteAsync(queue);

    public Task DeleteExchangeAsync(RabbitMqOptions options) => _channel.ExchangeDeleteAsync($"{options.Prefix}.direct");

    public Task UnbindAsync(RabbitMqOptions options, string queue, string key) => _channel.QueueUnbindAsync(queue, $"{options.Prefix}.direct", key);

    /// <summary>Declares the exchange as someone else might.</summary>
    public Task DeclareExchangeAsync(RabbitMqOptions options, string type) => _channel.ExchangeDeclareAsync($"{options.Prefix}.direct", type, durable: true);

    /// <summary>Declares a node's queue and its bindings as someone else might.</summary>
    public async Task DeclareQueueAsync(RabbitMqOptions options, string queue, string node, Dictionary<string, object?>? arguments = null)
    {
        await DeclareExchangeAsync(options, ExchangeType.Direct);
        await _channel.QueueDeclareAsync(queue, durable: true, exclusive: false, autoDelete: false, arguments);
        foreach (var key in new[] { node, "all" })
            await _channel.QueueBindAsync(queue, $"{options.Prefix}.direct", key);
    }

    /// <summary>Consumes a queue, and acknowledges nothing.</summary>
    public async Task HoldAsync(string queue, ushort prefetch)
    {
        await _channel.BasicQosAsync(0, prefetch, global: false);
        await _channel.BasicConsumeAsync(queue, autoAck: false, new AsyncDefaultBasicConsumer(_channel));
    }

    public async ValueTask DisposeAsync()
    {
        await _channel.DisposeAsync();
        await _connection.DisposeAsync();
    }

    private static IEnumerable<string> Texts(MessageBatch batch) =>
        Enumerable.Range(0, batch.Count).Select(index => System.Text.Encoding.UTF8.GetString(batch[index].Payload.Span));
}

/// <summary>A frame as it was on the wire.</summary>
internal sealed record CollectedFrame(string RoutingKey, IReadOnlyBasicProperties Properties, IReadOnlyList<string> Texts);
