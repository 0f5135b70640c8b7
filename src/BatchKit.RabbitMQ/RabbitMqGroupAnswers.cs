using System.Globalization;
using BatchKit.Transports;
using RabbitMQ.Client;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.RabbitMQ;

/// <summary>What a receiver publishes: the confirmations of joins, and messages that show whether its bindings exist. One call at a time.</summary>
/// <remarks>
/// It has a connection of its own. In an alarm the broker reads nothing more from a connection that publishes, and the receiver's must go on acknowledging, so that the broker gets rid of what it holds.
/// </remarks>
internal sealed class RabbitMqGroupAnswers(RabbitMqConnector connector, RabbitMqTopology topology, TimeSpan limit, TimeProvider timeProvider)
{
    private static readonly CreateChannelOptions Confirming = new(publisherConfirmationsEnabled: true, publisherConfirmationTrackingEnabled: true);

    private readonly RabbitMqClosings _closings = new(timeProvider);
    private IConnection? _connection;
    private IChannel? _channel;

    /// <summary>True when the connections are the application's, and live on.</summary>
    public bool SharesConnection => !connector.OwnsConnections;

    /// <summary>Confirms joins. A sender whose confirmation is lost asks again.</summary>
    public async Task ReplyAsync(int node, IReadOnlyList<GroupReply> replies, CancellationToken cancellationToken)
    {
        if (replies.Count == 0)
            return;
        try
        {
            var channel = _channel is { IsOpen: true } open ? open : await OpenAsync(cancellationToken).ConfigureAwait(false);
            foreach (var reply in replies)
            {
                var properties = new BasicProperties { MessageId = node.ToString(CultureInfo.InvariantCulture), CorrelationId = reply.Frame };
                // Not cancelled by a token; see RabbitMqTransport.
                await channel.BasicPublishAsync(topology.Exchange, reply.Key, mandatory: false, properties, ReadOnlyMemory<byte>.Empty, CancellationToken.None)
                    .AsTask().WaitAsync(limit, timeProvider, cancellationToken).ConfigureAwait(false);
            }
        }
        catch (Exception) when (!cancellationToken.IsCancellationRequested)
        {
            Discard();
        }
    }

    /// <summary>Looks whether a watch's queue is still bound.</summary>
    /// <returns>False when it is not: someone has deleted the exchange, with all its bindings. Null when there was no answer.</returns>
    /// <exception cref="OperationInterruptedException">The broker does not let the receiver publish.</exception>
    public async Task<bool?> FindAsync(string watch, CancellationToken cancellationToken)
    {
        try
        {
            if (_channel is not { IsOpen: true })
                await OpenAsync(cancellationToken).ConfigureAwait(false);
            return await PublishAsync(_connection!, topology.WatchQueue(watch), cancellationToken).WaitAsync(limit, timeProvider, cancellationToken).ConfigureAwait(false);
        }
        catch (OperationInterruptedException refusal) when (refusal.ShutdownReason?.ReplyCode == RabbitMqTopology.AccessRefused)
        {
            throw;
        }
        catch (Exception) when (!cancellationToken.IsCancellationRequested)
        {
            Discard();
            return null;
        }
    }

    /// <summary>Closes the connection; it is opened again when it is needed.</summary>
    public Task CloseAsync(TimeSpan within)
    {
        Discard();
        return _closings.WaitAsync(within);
    }

    private async Task<bool?> PublishAsync(IConnection connection, string key, CancellationToken cancellationToken)
    {
        RabbitMqAlarm.Of(connection).ThrowIfRaised();
        var channel = await connection.CreateChannelAsync(Confirming, cancellationToken).ConfigureAwait(false);
        await using (RabbitMqEnd.AtEnd(channel, timeProvider).ConfigureAwait(false))
        {
            try
            {
                await channel.BasicPublishAsync(topology.Exchange, key, mandatory: true, new BasicProperties(), ReadOnlyMemory<byte>.Empty, CancellationToken.None).ConfigureAwait(false);
                return true;
            }
            catch (PublishException failure)
            {
                return failure.IsReturn ? false : null;
            }
        }
    }

    private async Task<IChannel> OpenAsync(CancellationToken cancellationToken)
    {
        Discard();
        var attempt = CallerContext.RunWithout(OpenAsync);
        try
        {
            var open = await attempt.WaitAsync(limit, timeProvider, cancellationToken).ConfigureAwait(false);
            (_connection, _channel) = (open.Connection, open.Channel);
            return open.Channel;
        }
        catch
        {
            _closings.Start(attempt);
            throw;
        }
    }

    // It has no token: what an abandoned attempt opens must be known, so that it can be closed.
    private async Task<OpenChannel> OpenAsync()
    {
        var connection = await connector.ConnectAsync(CancellationToken.None).ConfigureAwait(false);
        Action? leave = connector.OwnsConnections ? null : static () => { };
        try
        {
            return new OpenChannel(connection, await connection.CreateChannelAsync().ConfigureAwait(false), timeProvider.GetTimestamp(), leave);
        }
        catch
        {
            _closings.Start(connection, channel: null, leave);
            throw;
        }
    }

    private void Discard()
    {
        if (_connection is { } connection)
            _closings.Start(connection, _channel, connector.OwnsConnections ? null : static () => { });
        (_connection, _channel) = (null, null);
    }
}
