using System.Globalization;
using BatchKit.Transports;
using RabbitMQ.Client;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.RabbitMQ;

/// <summary>Names, declares and checks the exchange and the queues: one direct exchange, and for each node a queue with two bindings, one for the node's number and one for all nodes.</summary>
internal sealed class RabbitMqTopology(RabbitMqOptions options)
{
    // The routing key that reaches every node.
    private const string AllNodesKey = "all";

    private const ushort AccessRefused = 403;
    private const ushort NotFound = 404;

    // One exchange for both keys: the broker guarantees order only among messages that pass through the same channel, exchange and queue (AMQP 0-9-1, section 4.7).
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

    /// <summary>Declares again what a receiver needs, or only checks that it exists when <see cref="RabbitMqOptions.DeclareTopology"/> is false. Existing objects do not change.</summary>
    /// <remarks>It uses a separate channel, because the broker closes a channel on which a declaration fails.</remarks>
    /// <exception cref="OperationInterruptedException">Something is missing that this process may not declare, or exists with other arguments; the reason names them.</exception>
    public async Task CheckAsync(IConnection connection, int node, CancellationToken cancellationToken)
    {
        var channel = await connection.CreateChannelAsync(cancellationToken: cancellationToken).ConfigureAwait(false);
        await using (channel.ConfigureAwait(false))
        {
            if (options.DeclareTopology)
            {
                await DeclareQueueAsync(channel, node, cancellationToken).ConfigureAwait(false);
                return;
            }

            await channel.ExchangeDeclarePassiveAsync(Exchange, cancellationToken).ConfigureAwait(false);
            await channel.QueueDeclarePassiveAsync(Queue(node), cancellationToken).ConfigureAwait(false);
        }
    }

    /// <summary>True when the exchange does not exist.</summary>
    public async Task<bool> IsExchangeMissingAsync(IConnection connection, CancellationToken cancellationToken)
    {
        var channel = await connection.CreateChannelAsync(cancellationToken: cancellationToken).ConfigureAwait(false);
        await using (channel.ConfigureAwait(false))
        {
            try
            {
                await channel.ExchangeDeclarePassiveAsync(Exchange, cancellationToken).ConfigureAwait(false);
                return false;
            }
            catch (OperationInterruptedException exception) when (exception.ShutdownReason?.ReplyCode == NotFound)
            {
                return true;
            }
        }
    }

    /// <summary>Begins to consume a queue that this process did not declare, if the queue has no other consumer.</summary>
    /// <remarks>
    /// While an earlier connection's consumer holds frames, a queue without <c>x-single-active-consumer</c> would give later frames to this one, which would then drop the
    /// earlier ones as repeats.
    /// </remarks>
    /// <returns>False when the broker refuses an exclusive consumer, as it does for a queue with <c>x-single-active-consumer</c>. The channel is then closed.</returns>
    /// <exception cref="InvalidOperationException">The queue has a consumer.</exception>
    public static async Task<bool> TryConsumeGivenAsync(IChannel channel, string queue, bool exclusive, IAsyncBasicConsumer consumer, CancellationToken cancellationToken)
    {
        var declared = await channel.QueueDeclarePassiveAsync(queue, cancellationToken).ConfigureAwait(false);
        if (declared.ConsumerCount > 0)
            throw new InvalidOperationException($"Queue {queue} has {declared.ConsumerCount} other consumers. The receiver starts when they have ended, so that no frame overtakes one that they hold.");
        try
        {
            await channel.BasicConsumeAsync(queue, autoAck: false, string.Empty, noLocal: false, exclusive, arguments: null, consumer, cancellationToken).ConfigureAwait(false);
            return true;
        }
        catch (OperationInterruptedException exception) when (exclusive && exception.ShutdownReason?.ReplyCode == AccessRefused)
        {
            return false;
        }
    }

    private Dictionary<string, object?> CreateArguments()
    {
        // Two processes with the same node number would share the queue's frames and lose their order. With this argument the second one waits.
        var arguments = new Dictionary<string, object?>(StringComparer.Ordinal) { ["x-single-active-consumer"] = true };
        if (options.QueueType == RabbitMqQueueType.Quorum)
        {
            arguments["x-queue-type"] = "quorum";
            // Without it, RabbitMQ 4 drops a frame after 20 deliveries, and each lost connection counts as one for all frames that were sent ahead. RabbitMQ 3 does not take -1, which means no limit.
            arguments["x-delivery-limit"] = int.MaxValue;
        }

        if (options.QueueExpiry is { } expiry)
            arguments["x-expires"] = (long)expiry.TotalMilliseconds;
        if (options.DeadLetterExchange is { Length: > 0 } exchange)
            arguments["x-dead-letter-exchange"] = exchange;
        return arguments;
    }
}
