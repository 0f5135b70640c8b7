using BatchKit.Benchmarks.Brokers;
using BatchKit.Benchmarks.Dolist;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;

namespace BatchKit.Benchmarks.OverRabbitMq;

/// <summary>A publisher with confirms and a consumer that acknowledges, on a connection each, with the bare client.</summary>
internal sealed class RabbitMqEnds : IDolistEnds
{
    private readonly IConnection _sender;
    private readonly IConnection _receiver;
    private readonly IChannel _publishing;
    private readonly string _exchange;

    private RabbitMqEnds(IConnection sender, IConnection receiver, IChannel publishing, string exchange)
    {
        _sender = sender;
        _receiver = receiver;
        _publishing = publishing;
        _exchange = exchange;
    }

    public Arrival Arrival { get; } = new();

    public static async Task<RabbitMqEnds> StartAsync()
    {
        var factory = new ConnectionFactory { Uri = await Broker.GetRabbitMqAsync() };
        var sender = await factory.CreateConnectionAsync();
        var receiver = await factory.CreateConnectionAsync();
        var publishing = await sender.CreateChannelAsync(new CreateChannelOptions(
            publisherConfirmationsEnabled: true, publisherConfirmationTrackingEnabled: true, outstandingPublisherConfirmationsRateLimiter: null));
        var name = $"benchmark.{Guid.NewGuid():N}";
        await publishing.ExchangeDeclareAsync(name, ExchangeType.Direct, durable: true, autoDelete: true);
        var ends = new RabbitMqEnds(sender, receiver, publishing, name);
        await ends.ConsumeAsync();
        return ends;
    }

    public ValueTask PublishAsync(byte[] bytes) => PublishAsync(bytes.AsMemory());

    /// <inheritdoc cref="PublishAsync(byte[])"/>
    public ValueTask PublishAsync(ReadOnlyMemory<byte> body) =>
        _publishing.BasicPublishAsync(_exchange, routingKey: "1", mandatory: true, new BasicProperties { Persistent = true }, body);

    public async ValueTask DisposeAsync()
    {
        await _receiver.DisposeAsync();
        await _sender.DisposeAsync();
    }

    private async Task ConsumeAsync()
    {
        var channel = await _receiver.CreateChannelAsync();
        var arguments = new Dictionary<string, object?>(StringComparer.Ordinal) { ["x-expires"] = 60_000 };
        await channel.QueueDeclareAsync(_exchange, durable: true, exclusive: false, autoDelete: true, arguments);
        await channel.QueueBindAsync(_exchange, _exchange, routingKey: "1");
        await channel.BasicQosAsync(prefetchSize: 0, prefetchCount: 1000, global: false);
        var consumer = new AsyncEventingBasicConsumer(channel);
        consumer.ReceivedAsync += async (_, delivery) =>
        {
            Arrival.Add(delivery.Body.Span);
            await channel.BasicAckAsync(delivery.DeliveryTag, multiple: false);
        };
        await channel.BasicConsumeAsync(_exchange, autoAck: false, consumer);
    }
}
