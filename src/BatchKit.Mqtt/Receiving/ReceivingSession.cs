using System.Globalization;
using BatchKit.Mqtt.Connections;
using BatchKit.Mqtt.Packets;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.Mqtt.Receiving;

/// <summary>Subscribes on each new connection and receives its messages; one connection at a time.</summary>
/// <param name="options">The settings.</param>
/// <param name="subscriptions">The subscriptions; at least one.</param>
/// <param name="arrivals">Collects the messages of one read.</param>
/// <param name="receiver">Gets the messages.</param>
/// <param name="timeProvider">The time.</param>
/// <param name="logger">Where it logs.</param>
/// <param name="abandon">Gives up the delivery under way.</param>
internal sealed class ReceivingSession(MqttOptions options, IReadOnlyList<MqttSubscription> subscriptions, IArrivals arrivals, BatchReceiver receiver,
    TimeProvider timeProvider, ILogger logger, CancellationToken abandon) : IConnectionUser
{
    // The only packet of the session with an id, so any id will do.
    private const ushort SubscribePacketId = 1;

    private const string NoConnection = "There is no connection.";

    private readonly TaskCompletionSource _firstAttempt = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private volatile SubscribedConnection? _connection;
    private volatile string? _fault = NoConnection;

    /// <summary>Completes when the first attempt to connect and subscribe has succeeded or failed, or when the broker's answer is late.</summary>
    public Task FirstAttempt => _firstAttempt.Task;

    /// <summary>A human-readable reason why not all subscriptions are active; null when they are.</summary>
    public string? Fault => _fault;

    /// <summary>True while the next hop has not accepted the messages of the last read.</summary>
    public bool IsDelivering => _connection?.IsDelivering ?? false;

    public void ConnectFailed(MqttConnectException failure) => _firstAttempt.TrySetResult();

    /// <summary>Ends the wait for the first attempt; there will be no more connections.</summary>
    public void Close() => _firstAttempt.TrySetResult();

    public async Task<string> ServeAsync(MqttConnection connection, CancellationToken cancellationToken)
    {
        if (FindUnsupported(connection.Limits) is { } unsupported)
        {
            _firstAttempt.TrySetResult();
            return unsupported;
        }

        // The broker still has the messages of a connection that broke before they were delivered.
        arrivals.Clear();
        var output = connection.Open(source: null);
        var subscribed = _connection = new SubscribedConnection(arrivals, receiver, output, connection.Version, abandon);
        try
        {
            _fault = "The broker has not answered the subscriptions yet.";
            output.Append(SubscribePacket.Write(SubscribePacketId, subscriptions, connection.Version));
            output.Flush();
            return await RunAsync(connection, subscribed, cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            _fault = NoConnection;
            _firstAttempt.TrySetResult();
        }
    }

    private static string Describe(SubackPacket suback, int index)
    {
        var code = suback.ReasonCodes[index];
        var says = suback.Reason is { } reason ? $" It says: {MqttTopics.Show(reason)}." : "";
        return string.Create(CultureInfo.InvariantCulture, $"{code} (0x{(int)code:X2}).{says}");
    }

    private async Task<string> RunAsync(MqttConnection connection, SubscribedConnection subscribed, CancellationToken cancellationToken)
    {
        var running = connection.RunAsync(subscribed, cancellationToken);
        await AwaitAnswerAsync(connection, subscribed.Subscribed, running).ConfigureAwait(false);
        if (subscribed.Subscribed.IsCompletedSuccessfully)
        {
            EvaluateAnswer(await subscribed.Subscribed.ConfigureAwait(false), connection.Target);
            _firstAttempt.TrySetResult();
        }

        return await running.ConfigureAwait(false);
    }

    // Mosquitto sends the messages of a resumed session before its answer, so the answer may be as far away as the next hop is slow. Only silence counts, and only
    // while the connection is read.
    private async Task AwaitAnswerAsync(MqttConnection connection, Task answer, Task running)
    {
        var limit = options.ConnectTimeout;
        var start = timeProvider.GetTimestamp();
        using var ended = new CancellationTokenSource();
        while (!answer.IsCompleted && !running.IsCompleted)
        {
            var left = limit - connection.SilentFor;
            if (left <= TimeSpan.Zero)
            {
                connection.Abandon($"The broker did not answer the subscriptions within {limit} ({nameof(MqttOptions.ConnectTimeout)}).");
                return;
            }

            await Task.WhenAny(answer, running, Task.Delay(KeepAlive.RoundUp(left), timeProvider, ended.Token)).ConfigureAwait(false);
            if (timeProvider.GetElapsedTime(start) >= limit)
                _firstAttempt.TrySetResult();
        }

        await ended.CancelAsync().ConfigureAwait(false);
    }

    private void EvaluateAnswer(SubackPacket suback, string target)
    {
        if (suback.ReasonCodes.Count != subscriptions.Count)
        {
            _fault = $"The broker answered {suback.ReasonCodes.Count} of {subscriptions.Count} subscriptions.";
            return;
        }

        string? fault = null;
        for (var index = 0; index < subscriptions.Count; index++)
        {
            var filter = MqttTopics.Show(subscriptions[index].Filter);
            if (suback.ReasonCodes[index] >= MqttReasonCode.UnspecifiedError)
            {
                var reason = Describe(suback, index);
                Log.SubscriptionRefused(logger, filter, target, reason);
                fault ??= $"{target} refused the subscription {filter}: {reason}";
            }
            else if ((int)suback.ReasonCodes[index] < (int)subscriptions[index].QualityOfService)
            {
                Log.SubscriptionLowered(logger, filter, target);
            }
        }

        _fault = fault;
        if (fault is null)
            Log.Receiving(logger, subscriptions.Count, target);
    }

    // Brokers react differently to an unsupported subscription; some close the connection.
    private string? FindUnsupported(ConnackPacket limits)
    {
        foreach (var filter in subscriptions.Select(static subscription => subscription.Filter))
        {
            if (!limits.IsSharedSubscriptionAvailable && filter.StartsWith("$share/", StringComparison.Ordinal))
                return $"The broker has no shared subscriptions; {MqttTopics.Show(filter)} is one.";
            if (!limits.IsWildcardSubscriptionAvailable && filter.AsSpan().ContainsAny('+', '#'))
                return $"The broker has no wildcard subscriptions; {MqttTopics.Show(filter)} is one.";
        }

        return null;
    }
}

/// <summary>Receives the messages of one connection and acknowledges them after each read is delivered. Nothing is read during a delivery, so TCP holds up the broker.</summary>
/// <param name="arrivals">Collects and delivers the messages.</param>
/// <param name="receiver">Gets the messages.</param>
/// <param name="output">Writes the acknowledgements.</param>
/// <param name="version">The connection's version.</param>
/// <param name="abandon">Gives up the delivery under way. The connection's own token does not: a delivery is finished also when the connection is lost.</param>
internal sealed class SubscribedConnection(IArrivals arrivals, BatchReceiver receiver, PacketOutput output, MqttVersion version, CancellationToken abandon)
    : IPacketHandler
{
    private readonly TaskCompletionSource<SubackPacket> _subscribed = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private byte[] _acknowledgements = new byte[64 * PubackPacket.Bytes];
    private int _acknowledgementBytes;
    private volatile bool _isDelivering;

    /// <summary>Completes with the broker's answer to the subscriptions.</summary>
    public Task<SubackPacket> Subscribed => _subscribed.Task;

    /// <summary>True while the next hop has not accepted the messages of the last read.</summary>
    public bool IsDelivering => _isDelivering;

    public void Handle(PacketHeader header, ReadOnlySpan<byte> body)
    {
        switch (header.Type)
        {
            case PacketType.Publish:
                Take(PublishPacket.Read(header, body, version));
                break;
            case PacketType.Suback:
                _subscribed.TrySetResult(SubackPacket.Read(body, version));
                break;
            default:
                throw MqttProtocolException.Forbidden($"{header.Type} is not allowed for a client that publishes nothing and subscribes with QoS 1 at most.");
        }
    }

    public ValueTask FinishReadAsync(CancellationToken cancellationToken) => arrivals.IsEmpty ? ValueTask.CompletedTask : DeliverAsync();

    private void Take(in ReceivedPublish publish)
    {
        if (publish.TopicAlias != 0)
            throw new MqttProtocolException(MqttReasonCode.TopicAliasInvalid, "The broker used a topic alias, which this client does not allow.");
        if (publish.QualityOfService == MqttQualityOfService.ExactlyOnce)
            throw new MqttProtocolException(MqttReasonCode.QoSNotSupported, "The broker sent a message with QoS 2, which no subscription asked for.");
        arrivals.Add(publish);
        if (publish.QualityOfService == MqttQualityOfService.AtMostOnce)
            return;
        if (_acknowledgementBytes == _acknowledgements.Length)
            Array.Resize(ref _acknowledgements, 2 * _acknowledgements.Length);
        PubackPacket.Write(_acknowledgements.AsSpan(_acknowledgementBytes), publish.PacketId);
        _acknowledgementBytes += PubackPacket.Bytes;
    }

    private async ValueTask DeliverAsync()
    {
        _isDelivering = true;
        try
        {
            await arrivals.DeliverAsync(receiver, abandon).ConfigureAwait(false);
            output.Append(_acknowledgements.AsSpan(0, _acknowledgementBytes));
            output.Flush();
        }
        catch (OperationCanceledException) when (abandon.IsCancellationRequested)
        {
            // Not acknowledged: the broker keeps the messages for the next receiver.
        }
        finally
        {
            _acknowledgementBytes = 0;
            _isDelivering = false;
        }
    }
}
