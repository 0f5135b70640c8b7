using System.Buffers;
using System.Security.Cryptography;
using System.Text;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.RabbitMQ;

/// <summary>Names, declares and checks the exchanges and the queues: one direct exchange, and for each node a queue that is bound to the node's number, to all nodes, and to the groups with members there.</summary>
internal sealed class RabbitMqTopology(RabbitMqOptions options)
{
    /// <summary>The reply code of AMQP 0-9-1 for what the user has no right to do, or another consumer has for itself.</summary>
    public const ushort AccessRefused = 403;

    private const string ReplyPrefix = "reply.";
    private const int MaxReplyKeyLength = 64;

    // A longer name is hashed: a key has at most 255 bytes.
    private const int MaxNameInKey = 100;

    private static readonly SearchValues<char> SafeInKey = SearchValues.Create("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/");

    private const ushort NotFound = 404;

    // One exchange for both keys: the broker guarantees order only among messages that pass through the same channel, exchange and queue (AMQP 0-9-1, section 4.7).
    public string Exchange { get; } = $"{options.Prefix}.direct";

    /// <summary>The key of one group. A name that is long, or that a tool of the broker might not show, is hashed.</summary>
    public static string GroupKey(string group) => group.Length <= MaxNameInKey && !group.AsSpan().ContainsAnyExcept(SafeInKey)
        ? $"group.{group}"
        : $"group#{Convert.ToHexString(SHA256.HashData(Encoding.UTF8.GetBytes(group)))}";

    /// <summary>Draws the key of one sender's confirmations.</summary>
    public static string CreateReplyKey() => ReplyPrefix + RandomNumberGenerator.GetHexString(32, lowercase: true);

    /// <summary>True for what <see cref="CreateReplyKey"/> drew: what a frame asks to be answered at may be anything.</summary>
    public static bool IsReplyKey(string? key) => key is { Length: <= MaxReplyKeyLength } && key.StartsWith(ReplyPrefix, StringComparison.Ordinal);

    /// <summary>The name of a watch's queue, which is its key too.</summary>
    public string WatchQueue(string watch) => $"{options.Prefix}.watch.{watch}";

    /// <summary>What a send reports when the broker closed its channel over something that is missing, such as the exchange; null for every other end of a channel.</summary>
    public string? ExplainMissing(ShutdownEventArgs? closed) => closed?.ReplyCode != NotFound ? null
        : $"{closed.ReplyText.TrimEnd('.')}. {(options.DeclareTopology ? "The sender declares it again." : $"Create it, or set {nameof(RabbitMqOptions.DeclareTopology)} to true.")}";

    public string Queue(int node) => $"{options.Prefix}.node.{RabbitMqKeys.Node(node)}";

    /// <summary>Declares what a sender needs: the exchange.</summary>
    public Task DeclareExchangeAsync(IChannel channel, CancellationToken cancellationToken) =>
        options.DeclareTopology
            ? channel.ExchangeDeclareAsync(Exchange, ExchangeType.Direct, durable: true, autoDelete: false, cancellationToken: cancellationToken)
            : Task.CompletedTask;

    /// <summary>Declares what a receiver needs: the exchange, its node's queue and the queue's bindings.</summary>
    /// <param name="channel">The channel.</param>
    /// <param name="node">The node.</param>
    /// <param name="takesAll">Whether the queue is bound to the output of all groups.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    public async Task DeclareQueueAsync(IChannel channel, int node, bool takesAll, CancellationToken cancellationToken)
    {
        await DeclareExchangeAsync(channel, cancellationToken).ConfigureAwait(false);
        if (!options.DeclareTopology)
            return;
        var queue = Queue(node);
        await channel.QueueDeclareAsync(queue, options.Durable, exclusive: false, autoDelete: false, CreateArguments(), cancellationToken: cancellationToken)
            .ConfigureAwait(false);

        // The node's own key first: if a direct frame were returned and a later frame to all nodes arrived, the receiver would drop the resent direct frame as a repeat.
        await channel.QueueBindAsync(queue, Exchange, RabbitMqKeys.Node(node), cancellationToken: cancellationToken).ConfigureAwait(false);
        await channel.QueueBindAsync(queue, Exchange, RabbitMqKeys.EveryNode, cancellationToken: cancellationToken).ConfigureAwait(false);
        if (takesAll)
            await TakeAllAsync(channel, node, cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Binds a node's queue to the output of all groups.</summary>
    public Task TakeAllAsync(IChannel channel, int node, CancellationToken cancellationToken) =>
        channel.QueueBindAsync(Queue(node), Exchange, RabbitMqKeys.AllNodes, cancellationToken: cancellationToken);

    /// <summary>Gives that binding up.</summary>
    public Task GiveUpAllAsync(IChannel channel, int node, CancellationToken cancellationToken) =>
        channel.QueueUnbindAsync(Queue(node), Exchange, RabbitMqKeys.AllNodes, cancellationToken: cancellationToken);

    /// <summary>Binds and unbinds groups of a node.</summary>
    public async Task BindGroupsAsync(IChannel channel, int node, IReadOnlyList<string> bound, IReadOnlyList<string> unbound, CancellationToken cancellationToken)
    {
        // The broker works in order, so its answer to the last is its answer to all.
        for (var index = 0; index < bound.Count; index++)
        {
            await channel.ExchangeBindAsync(GroupExchange(node), Exchange, GroupKey(bound[index]), arguments: null, noWait: index < bound.Count - 1, cancellationToken)
                .ConfigureAwait(false);
        }

        for (var index = 0; index < unbound.Count; index++)
        {
            await channel.ExchangeUnbindAsync(GroupExchange(node), Exchange, GroupKey(unbound[index]), arguments: null, noWait: index < unbound.Count - 1, cancellationToken)
                .ConfigureAwait(false);
        }
    }

    /// <summary>Declares the exchange between the groups' keys and a node's queue, without any key, whatever was bound before.</summary>
    /// <remarks>The keys of a process that was killed would stay on the queue itself. The broker deletes this exchange, with its keys, together with the queue.</remarks>
    public async Task RenewGroupExchangeAsync(IChannel channel, int node, CancellationToken cancellationToken)
    {
        var exchange = GroupExchange(node);
        await channel.ExchangeDeleteAsync(exchange, cancellationToken: cancellationToken).ConfigureAwait(false);
        await channel.ExchangeDeclareAsync(exchange, ExchangeType.Fanout, options.Durable, autoDelete: true, cancellationToken: cancellationToken).ConfigureAwait(false);
        await channel.QueueBindAsync(Queue(node), exchange, string.Empty, cancellationToken: cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Binds a queue of the connection that keeps no message. Whether one reaches it shows whether the exchange still has its bindings.</summary>
    public async Task BindWatchAsync(IChannel channel, string watch, CancellationToken cancellationToken)
    {
        var arguments = new Dictionary<string, object?>(StringComparer.Ordinal) { ["x-max-length"] = 0 };
        await channel.QueueDeclareAsync(WatchQueue(watch), durable: false, exclusive: true, autoDelete: false, arguments, cancellationToken: cancellationToken).ConfigureAwait(false);
        await channel.QueueBindAsync(WatchQueue(watch), Exchange, WatchQueue(watch), cancellationToken: cancellationToken).ConfigureAwait(false);
    }

    public Task DeleteWatchAsync(IChannel channel, string watch) => channel.QueueDeleteAsync(WatchQueue(watch), ifUnused: false, ifEmpty: false);

    /// <summary>Declares and consumes the queue of a sender's confirmations.</summary>
    public async Task ListenAsync(IChannel channel, string key, IAsyncBasicConsumer consumer, CancellationToken cancellationToken)
    {
        var queue = $"{options.Prefix}.{key}";
        await DeclareExchangeAsync(channel, cancellationToken).ConfigureAwait(false);
        await channel.QueueDeclareAsync(queue, durable: false, exclusive: true, autoDelete: true, cancellationToken: cancellationToken).ConfigureAwait(false);
        await channel.QueueBindAsync(queue, Exchange, key, cancellationToken: cancellationToken).ConfigureAwait(false);
        await channel.BasicConsumeAsync(queue, autoAck: true, consumer, cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Declares again what a receiver needs, or only checks that it exists when <see cref="RabbitMqOptions.DeclareTopology"/> is false. Existing objects do not change.</summary>
    /// <remarks>It uses a separate channel, because the broker closes a channel on which a declaration fails. It never declares a missing queue: the receiver's consumer would not belong to the new queue.</remarks>
    /// <returns>How many frames wait in the queue, besides those that the broker has delivered; null when the queue does not exist.</returns>
    /// <exception cref="OperationInterruptedException">Something is missing that this process may not declare, or exists with other arguments; the reason names them.</exception>
    public async Task<uint?> CheckAsync(IConnection connection, int node, bool takesAll, TimeProvider timeProvider, CancellationToken cancellationToken)
    {
        var channel = await connection.CreateChannelAsync(cancellationToken: cancellationToken).ConfigureAwait(false);
        await using (RabbitMqEnd.AtEnd(channel, timeProvider).ConfigureAwait(false))
        {
            if (!options.DeclareTopology)
                await channel.ExchangeDeclarePassiveAsync(Exchange, cancellationToken).ConfigureAwait(false);
            QueueDeclareOk queue;
            try
            {
                queue = await channel.QueueDeclarePassiveAsync(Queue(node), cancellationToken).ConfigureAwait(false);
            }
            catch (OperationInterruptedException exception) when (exception.ShutdownReason?.ReplyCode == NotFound)
            {
                return null;
            }

            if (options.DeclareTopology)
                await DeclareQueueAsync(channel, node, takesAll, cancellationToken).ConfigureAwait(false);
            return queue.MessageCount;
        }
    }

    /// <summary>True when the exchange does not exist.</summary>
    public static async Task<bool> IsExchangeMissingAsync(IConnection connection, string exchange, TimeProvider timeProvider, CancellationToken cancellationToken)
    {
        var channel = await connection.CreateChannelAsync(cancellationToken: cancellationToken).ConfigureAwait(false);
        await using (RabbitMqEnd.AtEnd(channel, timeProvider).ConfigureAwait(false))
        {
            try
            {
                await channel.ExchangeDeclarePassiveAsync(exchange, cancellationToken).ConfigureAwait(false);
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

    private string GroupExchange(int node) => $"{options.Prefix}.groups.{RabbitMqKeys.Node(node)}";

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
