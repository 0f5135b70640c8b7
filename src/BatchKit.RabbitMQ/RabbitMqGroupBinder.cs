using System.Security.Cryptography;
using BatchKit.Diagnostics;
using Microsoft.Extensions.Logging;
using RabbitMQ.Client;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.RabbitMQ;

/// <summary>Binds the keys of the groups that have members on this node, and confirms that to the senders of joins, over one connection at a time.</summary>
internal sealed class RabbitMqGroupBinder(
    RabbitMqTopology topology, RabbitMqGroupBindings bindings, RabbitMqGroupAnswers answers, TimeSpan checkInterval, TimeProvider timeProvider, ILogger logger)
{
    // How long a group without members stays bound, at least: players come and go.
    private static readonly TimeSpan Linger = TimeSpan.FromSeconds(1);

    private static readonly TimeSpan ClosingLimit = TimeSpan.FromMilliseconds(500);

    private readonly string _watch = RandomNumberGenerator.GetHexString(16, lowercase: true);

    /// <summary>Binds and confirms over one connection until it is cancelled.</summary>
    /// <returns>Why the connection must be replaced; null when it was cancelled.</returns>
    public async Task<string?> RunAsync(IConnection connection, int node, CancellationToken cancellationToken)
    {
        var binding = Task.Run(() => BindAsync(connection, node, cancellationToken), CancellationToken.None);
        try
        {
            return await binding.WaitAsync(cancellationToken).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            bindings.TakeAll();
            // Calls of the client may never end when their connection is lost (version 7.2.2, issues 1968 and 1976). What waits for one then is left to itself.
            await ((Task)binding).WaitAsync(ClosingLimit, timeProvider, CancellationToken.None).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            return null;
        }
        finally
        {
            // Until the next connection nothing binds, and no send may wait for that, least of all one of a buffer with another broker.
            bindings.TakeAll();
            await answers.CloseAsync(ClosingLimit).ConfigureAwait(false);
        }
    }

    // When it was cancelled, the bindings may be those of the next connection.
    private async Task<string?> BindAsync(IConnection connection, int node, CancellationToken cancellationToken)
    {
        IChannel? channel = null;
        try
        {
            while (true)
            {
                try
                {
                    channel ??= await connection.CreateChannelAsync(cancellationToken: cancellationToken).ConfigureAwait(false);
                    await WorkAsync(channel, node, cancellationToken).ConfigureAwait(false);
                }
                catch (OperationInterruptedException refusal) when (connection.IsOpen && !cancellationToken.IsCancellationRequested && bindings.TryRefuse())
                {
                    Log.GroupsNotBound(logger, topology.Queue(node), refusal.ShutdownReason?.ReplyText ?? FailureText.MessageOf(refusal));
                    await RabbitMqEnd.EndAsync(channel!, timeProvider).ConfigureAwait(false);
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
            return $"Its groups could not be bound: {FailureText.MessageOf(exception)}";
        }
        finally
        {
            // An own connection ends now, with its channels and queues.
            if (channel is not null && answers.SharesConnection)
                await EndAsync(channel).ConfigureAwait(false);
        }
    }

    private async Task WorkAsync(IChannel channel, int node, CancellationToken cancellationToken)
    {
        var lingered = timeProvider.GetTimestamp();
        var found = lingered;
        while (true)
        {
            if (bindings.CanBeLost && timeProvider.GetElapsedTime(found) >= checkInterval)
            {
                if (await answers.FindAsync(_watch, cancellationToken).ConfigureAwait(false) is false)
                    bindings.Lose();
                found = timeProvider.GetTimestamp();
            }

            if (bindings.IsRenewalDue)
                await RenewAsync(channel, node, cancellationToken).ConfigureAwait(false);
            if (bindings.IsBacklogged)
                await GoToAllAsync(channel, node, cancellationToken).ConfigureAwait(false);
            var ages = timeProvider.GetElapsedTime(lingered) >= Linger;
            if (ages)
                lingered = timeProvider.GetTimestamp();
            var work = bindings.Take(ages);
            await topology.BindGroupsAsync(channel, node, work.Bound, work.Unbound, cancellationToken).ConfigureAwait(false);
            cancellationToken.ThrowIfCancellationRequested();
            if (bindings.Finish(out var next))
                await topology.GiveUpAllAsync(channel, node, cancellationToken).ConfigureAwait(false);
            await answers.ReplyAsync(node, work.Replies, cancellationToken).ConfigureAwait(false);
            await next.WaitAsync(Linger, timeProvider, cancellationToken).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            cancellationToken.ThrowIfCancellationRequested();
        }
    }

    private async Task RenewAsync(IChannel channel, int node, CancellationToken cancellationToken)
    {
        await GoToAllAsync(channel, node, cancellationToken).ConfigureAwait(false);
        await topology.RenewGroupExchangeAsync(channel, node, cancellationToken).ConfigureAwait(false);
        await topology.BindWatchAsync(channel, _watch, cancellationToken).ConfigureAwait(false);
        // Without the right to publish, nothing would tell that the bindings are gone.
        if (await answers.FindAsync(_watch, cancellationToken).ConfigureAwait(false) is true)
            bindings.Renew();
    }

    private async Task GoToAllAsync(IChannel channel, int node, CancellationToken cancellationToken)
    {
        await topology.TakeAllAsync(channel, node, cancellationToken).ConfigureAwait(false);
        cancellationToken.ThrowIfCancellationRequested();
        bindings.TakeAll();
    }

    private async Task EndAsync(IChannel channel)
    {
        if (channel.IsOpen)
            await topology.DeleteWatchAsync(channel, _watch).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        await RabbitMqEnd.EndAsync(channel, timeProvider).ConfigureAwait(false);
    }
}
