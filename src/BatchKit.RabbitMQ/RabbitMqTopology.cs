using System.Globalization;
using BatchKit.Transports;
using RabbitMQ.Client;

namespace BatchKit.RabbitMQ;

/// <summary>Names and declares the exchange and the queues: one direct exchange, and for each node a queue that is bound to the node's number and to all nodes.</summary>
internal sealed class RabbitMqTopology(RabbitMqOptions options)
{
    // The routing key that reaches every node.
    private const string AllNodesKey = "all";

    // One exchange for both keys: the broker promises order only among messages that took the same channel and exchange.
    public string Exchange { get; } = $"{options.Prefix}.direct";

    public static string RoutingKey(FrameDestination destination) => destination.IsAll ? AllNodesKey : NodeKey(destination.Node);

    public static string NodeKey(int node) => node.ToString(CultureInfo.InvariantCulture);

    public string Queue(int node) => $"{options.Prefix}.node.{NodeKey(node)}";

    /// <summary>Declares what a sender needs: the exchange.</summary>
    public Task DeclareExchangeAsync(IChannel channel, CancellationToken cancellationToken) =>
        options.DeclareTopology
            ? channel.ExchangeDeclareAsync(Exchange, ExchangeType.Direct, durable: true, autoDelete: false, cancellationToken: cancellationToken)
            : Task.CompletedTask;

    /// <summary>Declares what a receiver needs: the exchange, its node's queue and the queue's bindings.</summary>
    public async Task DeclareQueueAsync(IChannel channel, int node, CancellationToken cancellationToken)
    {
        await DeclareExchangeAsync(channel, cancellationToken).ConfigureAwait(false);
        if (!options.DeclareTopology)
            return;
        var queue = Queue(node);
        await channel.QueueDeclareAsync(queue, options.Durable, exclusive: false, autoDelete: false, CreateArguments(), cancellationToken: cancellationToken)
            .ConfigureAwait(false);

        // The node's own key first: if a direct frame were returned and a later frame to all nodes arrived, the receiver would drop the resent direct frame as a repeat.
        await channel.QueueBindAsync(queue, Exchange, NodeKey(node), cancellationToken: cancellationToken).ConfigureAwait(false);
        await channel.QueueBindAsync(queue, Exchange, AllNodesKey, cancellationToken: cancellationToken).ConfigureAwait(false);
    }

    private Dictionary<string, object?> CreateArguments()
    {
        // Two processes with the same node number would share the queue's frames and lose their order. With this argument the second one waits.
        var arguments = new Dictionary<string, object?>(StringComparer.Ordinal) { ["x-single-active-consumer"] = true };
        if (options.QueueExpiry is { } expiry)
            arguments["x-expires"] = (long)expiry.TotalMilliseconds;
        if (options.DeadLetterExchange is { Length: > 0 } exchange)
            arguments["x-dead-letter-exchange"] = exchange;
        return arguments;
    }
}
