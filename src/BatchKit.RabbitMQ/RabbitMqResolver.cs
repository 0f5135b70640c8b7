using System.Net;
using System.Net.Sockets;
using BatchKit.Diagnostics;
using RabbitMQ.Client;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.RabbitMQ;

/// <summary>Connects to any address of any broker: of a name's addresses the client tries only the first, and after one that accepts and says nothing it tries no other.</summary>
internal static class RabbitMqResolver
{
    /// <summary>RabbitMQ's own maximum. It is above MaxFrameBytes, so that the frame reader rejects a frame that is too large and the connection stays open.</summary>
    public const uint MaxBodyBytes = 128 * 1024 * 1024;

    // The part of the time limit after which a name that is not resolved keeps the addresses of the others waiting no longer.
    private const int ResolvingShare = 4;

    /// <summary>Opens a connection to the first address that answers, in a random order. The time limit is divided among the addresses, so that a silent one leaves time for the next.</summary>
    /// <param name="factory">The settings. Its time limits are set here.</param>
    /// <param name="hosts">The brokers.</param>
    /// <param name="resolve">Finds a name's addresses.</param>
    /// <param name="name">The connection's name.</param>
    /// <param name="limit">The time limit of all attempts.</param>
    /// <param name="cancellationToken">Ends the attempts.</param>
    /// <exception cref="TimeoutException">The last address accepted the connection, and said nothing.</exception>
    public static async Task<IConnection> ConnectAsync(
        ConnectionFactory factory, IEnumerable<AmqpTcpEndpoint> hosts, Func<string, CancellationToken, Task<IPAddress[]>> resolve, string name, TimeSpan limit, CancellationToken cancellationToken)
    {
        // The client limits the wait for the socket, but not the wait for the broker's first word (version 7.2.2). Its limits are the system's time, so these are too.
        var began = TimeProvider.System.GetTimestamp();
        var endpoints = await ResolveAsync(hosts, resolve, limit / ResolvingShare, cancellationToken).ConfigureAwait(false);
        Random.Shared.Shuffle(endpoints);

        var left = limit - TimeProvider.System.GetElapsedTime(began);
        var share = (left > TimeSpan.Zero ? left : limit) / endpoints.Length;
        factory.RequestedConnectionTimeout = factory.HandshakeContinuationTimeout = share;
        for (var index = 0; ; index++)
        {
            using var silence = new CancellationTokenSource(share, TimeProvider.System);
            using var either = CancellationTokenSource.CreateLinkedTokenSource(silence.Token, cancellationToken);
            var attempt = factory.CreateConnectionAsync([endpoints[index]], name, either.Token);
            try
            {
                // The client takes as long again to end an attempt that is cancelled.
                return await attempt.WaitAsync(either.Token).ConfigureAwait(false);
            }
            catch (Exception exception)
            {
                _ = DiscardAsync(attempt);
                if (cancellationToken.IsCancellationRequested || IsAnswer(exception))
                    throw;
                // The next address may answer.
                if (index < endpoints.Length - 1)
                    continue;
                if (silence.IsCancellationRequested)
                    throw new TimeoutException($"It did not answer within {share} (ConnectTimeout, divided by the number of addresses, {endpoints.Length})", exception);
                throw;
            }
        }
    }

    /// <summary>Returns an endpoint for each address. Once the limit is over, it waits for no other name when it has the addresses of one: its server may be silent.</summary>
    private static async Task<AmqpTcpEndpoint[]> ResolveAsync(
        IEnumerable<AmqpTcpEndpoint> hosts, Func<string, CancellationToken, Task<IPAddress[]>> resolve, TimeSpan limit, CancellationToken cancellationToken)
    {
        var names = hosts.Select(host => ResolveAsync(host, resolve, cancellationToken)).ToArray();
        await ((Task)Task.WhenAll(names)).WaitAsync(limit, TimeProvider.System, cancellationToken).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        await Task.WhenAny(names).WaitAsync(cancellationToken).ConfigureAwait(false);
        foreach (var name in names)
            _ = name.ContinueWith(static late => late.Exception, TaskScheduler.Default);
        return [.. (await Task.WhenAll(names.Where(static name => name.IsCompleted)).ConfigureAwait(false)).SelectMany(static endpoints => endpoints)];
    }

    private static async Task<IEnumerable<AmqpTcpEndpoint>> ResolveAsync(AmqpTcpEndpoint host, Func<string, CancellationToken, Task<IPAddress[]>> resolve, CancellationToken cancellationToken)
    {
        try
        {
            var addresses = await resolve(host.HostName, cancellationToken).ConfigureAwait(false);
            return addresses.Select(address => new AmqpTcpEndpoint(address.ToString(), host.Port, host.Ssl, host.MaxInboundMessageBodySize));
        }
        catch (SocketException)
        {
            // A name without addresses keeps no other host from being tried. The client says what is wrong with it.
            return [host];
        }
    }

    // Its failure was reported when it was given up.
    private static async Task DiscardAsync(Task<IConnection> attempt)
    {
        await ((Task)attempt).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (attempt.IsCompletedSuccessfully)
            await (await attempt.ConfigureAwait(false)).DisposeAsync().ConfigureAwait(false);
    }

    // Another address of the same brokers would say the same.
    private static bool IsAnswer(Exception exception) => FailureText.CausesOf(exception)
        .Any(static cause => cause is AuthenticationFailureException or OperationInterruptedException { ShutdownReason.Initiator: ShutdownInitiator.Peer });
}
