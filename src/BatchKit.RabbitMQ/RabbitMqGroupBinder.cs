using System.Globalization;
using System.Security.Cryptography;
using Microsoft.Extensions.Logging;
using RabbitMQ.Client;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.RabbitMQ;

/// <summary>Binds the keys of the groups that have members on this node, and confirms that to the senders of joins, over one connection at a time.</summary>
internal sealed class RabbitMqGroupBinder(RabbitMqTopology topology, RabbitMqGroupBindings bindings, TimeProvider timeProvider, ILogger logger)
{
    // How long a group without members stays bound, at least: players come and go.
    private static readonly TimeSpan Linger = TimeSpan.FromSeconds(1);

    private readonly string _watch = RandomNumberGenerator.GetHexString(16, lowercase: true);

    /// <summary>Binds and confirms over one connection until it is cancelled.</summary>
    /// <returns>Why the connection must be replaced; null when it was cancelled.</returns>
    public async Task<string?> RunAsync(IConnection connection, int node, CancellationToken cancellationToken)
    {
        IChannel? channel = null;
        try
        {
            while (true)
            {
                try
                {
                    channel ??= await connection.CreateChannelAsync(cancellationToken: cancellationToken).ConfigureAwait(false);
                    await WorkAsync(connection, channel, node, cancellationToken).ConfigureAwait(false);
                }
                catch (OperationInterruptedException) when (connection.IsOpen && bindings.StaysOnAll)
                {
                    // Without the right to publish there are no confirmations, and senders go on naming this node.
                    await Task.Delay(Timeout.InfiniteTimeSpan, timeProvider, cancellationToken).ConfigureAwait(false);
                }
                catch (OperationInterruptedException refusal) when (connection.IsOpen && bindings.TryRefuse())
                {
                    Log.GroupsNotBound(logger, topology.Queue(node), refusal.ShutdownReason?.ReplyText ?? refusal.Message);
                    await channel!.DisposeAsync().ConfigureAwait(false);
                    channel = null;
                }
            }
        }
        catch (OperationCanceledException) when (cancellationToken.IsCancellationRequested)
        {
            return null;
        }
        catch (Exception exception)
        {
            return $"Its groups could not be bound: {exception.Message}";
        }
        finally
        {
            if (channel is not null)
                await EndAsync(channel).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
    }

    /// <summary>Looks whether the exchange still has the bindings, and has all bound again when it has not.</summary>
    public async Task CheckAsync(IConnection connection, CancellationToken cancellationToken)
    {
        if (bindings.CanBeLost && !await topology.FindWatchAsync(connection, _watch, cancellationToken).ConfigureAwait(false))
            bindings.Lose();
    }

    private async Task WorkAsync(IConnection connection, IChannel channel, int node, CancellationToken cancellationToken)
    {
        var lingered = timeProvider.GetTimestamp();
        while (true)
        {
            if (bindings.IsRenewalDue)
                await RenewAsync(connection, channel, node, cancellationToken).ConfigureAwait(false);
            if (bindings.IsBacklogged)
                await GoToAllAsync(channel, node, cancellationToken).ConfigureAwait(false);
            var ages = timeProvider.GetElapsedTime(lingered) >= Linger;
            if (ages)
                lingered = timeProvider.GetTimestamp();
            var work = bindings.Take(ages);
            await topology.BindGroupsAsync(channel, node, work.Bound, work.Unbound, cancellationToken).ConfigureAwait(false);
            foreach (var reply in work.Replies)
                await ReplyAsync(channel, node, reply).ConfigureAwait(false);
            if (bindings.Finish(out var next))
                await topology.GiveUpAllAsync(channel, node, cancellationToken).ConfigureAwait(false);
            await next.WaitAsync(Linger, timeProvider, cancellationToken).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            cancellationToken.ThrowIfCancellationRequested();
        }
    }

    private async Task RenewAsync(IConnection connection, IChannel channel, int node, CancellationToken cancellationToken)
    {
        await GoToAllAsync(channel, node, cancellationToken).ConfigureAwait(false);
        await topology.RenewGroupExchangeAsync(channel, node, cancellationToken).ConfigureAwait(false);
        await topology.BindWatchAsync(channel, _watch, cancellationToken).ConfigureAwait(false);
        // Without the right to publish, nothing would tell that the bindings are gone.
        if (!await topology.FindWatchAsync(connection, _watch, cancellationToken).ConfigureAwait(false))
            return;
        bindings.Renew();
    }

    private async Task GoToAllAsync(IChannel channel, int node, CancellationToken cancellationToken)
    {
        await topology.TakeAllAsync(channel, node, cancellationToken).ConfigureAwait(false);
        bindings.TakeAll();
    }

    // An application's connection lives on, and so would the queue.
    private async Task EndAsync(IChannel channel)
    {
        if (channel.IsOpen)
            await topology.DeleteWatchAsync(channel, _watch).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        await channel.DisposeAsync().ConfigureAwait(false);
    }

    private ValueTask ReplyAsync(IChannel channel, int node, GroupReply reply)
    {
        var properties = new BasicProperties { MessageId = node.ToString(CultureInfo.InvariantCulture), CorrelationId = reply.Frame };
        return channel.BasicPublishAsync(topology.Exchange, reply.Key, mandatory: false, properties, ReadOnlyMemory<byte>.Empty, CancellationToken.None);
    }
}
