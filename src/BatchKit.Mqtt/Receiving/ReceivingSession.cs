using System.Globalization;
using BatchKit.Mqtt.Connections;
using BatchKit.Mqtt.Packets;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.Mqtt.Receiving;

/// <summary>Subscribes on each new connection and takes what comes, one connection after the other.</summary>
/// <param name="options">The settings.</param>
/// <param name="subscriptions">What to subscribe to; at least one.</param>
/// <param name="arrivals">Gathers what one read brings.</param>
/// <param name="receiver">Gets it.</param>
/// <param name="timeProvider">The time.</param>
/// <param name="logger">Where it logs.</param>
/// <param name="abandon">Gives up what is in hand.</param>
internal sealed class ReceivingSession(MqttOptions options, IReadOnlyList<MqttSubscription> subscriptions, IArrivals arrivals, BatchReceiver receiver,
    TimeProvider timeProvider, ILogger logger, CancellationToken abandon) : IConnectionUser
{
    // Its only packet with an id, so any will do.
    private const ushort SubscribePacketId = 1;

    private const string NoConnection = "There is no connection.";

    private readonly TaskCompletionSource _tried = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private volatile SubscribedConnection? _connection;
    private volatile string? _fault = NoConnection;

    /// <summary>Completes when the first attempt to connect and subscribe has succeeded or failed.</summary>
    public Task Tried => _tried.Task;

    /// <summary>Why not all that was subscribed to comes, for a person; null when it does.</summary>
    public string? Fault => _fault;

    /// <summary>True while the next hop has not taken what was read.</summary>
    public bool IsHandingOn => _connection?.IsHandingOn ?? false;

    public void ConnectFailed(MqttConnectException failure) => _tried.TrySetResult();

    /// <summary>There will be no connection any more.</summary>
    public void Close() => _tried.TrySetResult();

    public async Task<string> ServeAsync(MqttConnection connection, CancellationToken cancellationToken)
    {
        if (FindUnsupported(connection.Limits) is { } unsupported)
        {
            _tried.TrySetResult();
            return unsupported;
        }

        // What a connection brought that broke before it was handed on is the broker's still.
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
            _tried.TrySetResult();
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
        using var unanswered = new CancellationTokenSource(options.ConnectTimeout, timeProvider);
        using var either = CancellationTokenSource.CreateLinkedTokenSource(cancellationToken, unanswered.Token);
        var running = connection.RunAsync(subscribed, either.Token);
        await Task.WhenAny(running, subscribed.Subscribed).ConfigureAwait(false);
        if (subscribed.Subscribed.IsCompletedSuccessfully)
        {
            unanswered.CancelAfter(Timeout.InfiniteTimeSpan);
            Judge(await subscribed.Subscribed.ConfigureAwait(false), connection.Target);
            _tried.TrySetResult();
        }

        var reason = await running.ConfigureAwait(false);
        return unanswered.IsCancellationRequested && !cancellationToken.IsCancellationRequested
            ? $"The broker did not answer the subscriptions within {options.ConnectTimeout} ({nameof(MqttOptions.ConnectTimeout)})."
            : reason;
    }

    private void Judge(SubackPacket suback, string target)
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

    // What a broker then says to such a subscription differs: some close the connection.
    private string? FindUnsupported(ConnackPacket limits)
    {
        foreach (var filter in subscriptions.Select(static subscription => subscription.Filter))
        {
            if (!limits.IsSharedSubscriptionAvailable && filter.StartsWith("$share/", StringComparison.Ordinal))
                return $"The broker has no shared subscriptions, as {MqttTopics.Show(filter)} is one.";
            if (!limits.IsWildcardSubscriptionAvailable && filter.AsSpan().ContainsAny('+', '#'))
                return $"The broker has no wildcards in subscriptions, as {MqttTopics.Show(filter)} has one.";
        }

        return null;
    }
}

/// <summary>Takes what one connection brings, a read at a time, and acknowledges it when it is handed on. Meanwhile nothing is read, so the broker is held up by TCP.</summary>
/// <param name="arrivals">Gathers and hands on.</param>
/// <param name="receiver">Where to.</param>
/// <param name="output">Where the acknowledgements go.</param>
/// <param name="version">The connection's.</param>
/// <param name="abandon">Gives up what is in hand. The connection's own token does not: what is in hand is finished when the connection is lost.</param>
internal sealed class SubscribedConnection(IArrivals arrivals, BatchReceiver receiver, PacketOutput output, MqttVersion version, CancellationToken abandon)
    : IPacketHandler
{
    private readonly TaskCompletionSource<SubackPacket> _subscribed = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private byte[] _acknowledgements = new byte[64 * PubackPacket.Bytes];
    private int _acknowledgementBytes;
    private volatile bool _isHandingOn;

    /// <summary>Completes with the broker's answer to the subscriptions.</summary>
    public Task<SubackPacket> Subscribed => _subscribed.Task;

    /// <summary>True while the next hop has not taken what was read.</summary>
    public bool IsHandingOn => _isHandingOn;

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
                throw MqttProtocolException.Forbidden($"{header.Type} is not for a client that publishes nothing and has QoS 1 at most.");
        }
    }

    public ValueTask FinishReadAsync(CancellationToken cancellationToken) => arrivals.IsEmpty ? ValueTask.CompletedTask : HandOnAsync();

    private void Take(in ReceivedPublish publish)
    {
        if (publish.TopicAlias != 0)
            throw new MqttProtocolException(MqttReasonCode.TopicAliasInvalid, "The broker used a topic alias, and was not allowed any.");
        if (publish.QualityOfService == MqttQualityOfService.ExactlyOnce)
            throw new MqttProtocolException(MqttReasonCode.QoSNotSupported, "The broker sent with QoS 2, and no subscription asked for it.");
        arrivals.Add(publish);
        if (publish.QualityOfService == MqttQualityOfService.AtMostOnce)
            return;
        if (_acknowledgementBytes == _acknowledgements.Length)
            Array.Resize(ref _acknowledgements, 2 * _acknowledgements.Length);
        PubackPacket.Write(_acknowledgements.AsSpan(_acknowledgementBytes), publish.PacketId);
        _acknowledgementBytes += PubackPacket.Bytes;
    }

    private async ValueTask HandOnAsync()
    {
        _isHandingOn = true;
        try
        {
            await arrivals.HandOnAsync(receiver, abandon).ConfigureAwait(false);
            output.Append(_acknowledgements.AsSpan(0, _acknowledgementBytes));
            output.Flush();
        }
        catch (OperationCanceledException) when (abandon.IsCancellationRequested)
        {
            // Not acknowledged: the broker keeps it and the next receiver gets it.
        }
        finally
        {
            _acknowledgementBytes = 0;
            _isHandingOn = false;
        }
    }
}
