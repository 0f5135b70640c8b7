using System.Globalization;
using BatchKit.Testing;
using BatchKit.TestServers.RabbitMQ;
using RabbitMQ.Client;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>A connection of the test's own to the broker: a queue that gets a copy of what goes to a node, and what no transport would publish.</summary>
internal sealed class WireTap : IAsyncDisposable
{
    private readonly IConnection _connection;
    private readonly IChannel _channel;
    private readonly string _prefix;

    private WireTap(IConnection connection, IChannel channel, string prefix)
    {
        _connection = connection;
        _channel = channel;
        _prefix = prefix;
    }

    public static async Task<WireTap> ConnectAsync(RabbitMqServer server, string prefix)
    {
        var connection = await new ConnectionFactory { Uri = server.Address, AutomaticRecoveryEnabled = false }.CreateConnectionAsync();
        return new WireTap(connection, await connection.CreateChannelAsync(new CreateChannelOptions(true, true)), prefix);
    }

    /// <summary>Copies a node's frames, and those to all nodes, to a queue of the tap's own.</summary>
    public async Task<string> ListenAsync(int node)
    {
        await DeclareExchangeAsync();
        var queue = (await _channel.QueueDeclareAsync(Some.Name("tap"), durable: false, exclusive: true, autoDelete: true)).QueueName;
        await _channel.QueueBindAsync(queue, $"{_prefix}.direct", node.ToString(CultureInfo.InvariantCulture));
        await _channel.QueueBindAsync(queue, $"{_prefix}.direct", "every");
        return queue;
    }

    /// <summary>Gives a node a queue that rejects all frames (<c>reject-publish</c>), because it is full.</summary>
    public async Task<string> DeclareFullAsync(int node)
    {
        await DeclareExchangeAsync();
        var limits = new Dictionary<string, object?>(StringComparer.Ordinal) { ["x-max-length"] = 1, ["x-overflow"] = "reject-publish" };
        var queue = (await _channel.QueueDeclareAsync(Some.Name("full"), durable: false, exclusive: true, autoDelete: true, limits)).QueueName;
        await PublishAsync(queue, Some.Frame(Some.Batch(Some.Connection(node), Some.Producer(), 1, "fills the queue")));
        await _channel.QueueBindAsync(queue, $"{_prefix}.direct", node.ToString(CultureInfo.InvariantCulture));
        return queue;
    }

    public async Task<IReadOnlyList<BasicGetResult>> TakeAsync(string queue)
    {
        var messages = new List<BasicGetResult>();
        while (await _channel.BasicGetAsync(queue, autoAck: true) is { } message)
            messages.Add(message);
        return messages;
    }

    public Task PublishAsync(string queue, byte[] body, string? contentType = null) =>
        _channel.BasicPublishAsync(string.Empty, queue, mandatory: true, new BasicProperties { ContentType = contentType }, body).AsTask();

    public Task DeleteQueueAsync(string queue) => _channel.QueueDeleteAsync(queue);

    public Task DeleteExchangeAsync(string exchange) => _channel.ExchangeDeleteAsync(exchange);

    public Task DeclareExchangeAsync(string exchange, string type) => _channel.ExchangeDeclareAsync(exchange, type, durable: true);

    public Task<uint> CountAsync(string queue) => _channel.MessageCountAsync(queue);

    /// <summary>True when the exchange is there; asked on a channel of its own, which a missing one closes.</summary>
    public async Task<bool> ExchangeExistsAsync(string exchange)
    {
        await using var channel = await _connection.CreateChannelAsync();
        try
        {
            await channel.ExchangeDeclarePassiveAsync(exchange);
            return true;
        }
        catch (global::RabbitMQ.Client.Exceptions.OperationInterruptedException)
        {
            return false;
        }
    }

    public async ValueTask DisposeAsync()
    {
        await _channel.DisposeAsync();
        await _connection.DisposeAsync();
    }

    private Task DeclareExchangeAsync() => DeclareExchangeAsync($"{_prefix}.direct", ExchangeType.Direct);
}
