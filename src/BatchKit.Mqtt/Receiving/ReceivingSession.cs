using System.Globalization;
using BatchKit.Mqtt.Connections;
using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Publishing;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Receiving;

/// <summary>Subscribes on each new connection and receives its messages; one connection at a time.</summary>
/// <param name="options">The settings.</param>
/// <param name="subscriptions">The subscriptions; at least one. They are known when the first connection is served, because they may contain a number that is leased before.</param>
/// <param name="createArrivals">Creates what collects the messages of one read.</param>
/// <param name="receiver">Gets the messages.</param>
/// <param name="timeProvider">The time.</param>
/// <param name="log">Where it logs.</param>
/// <param name="lease">The lease of the number in the subscriptions; null for none. Nothing is received while another process has the number.</param>
/// <param name="publisher">Publishes over the same connections; null for connections that only receive.</param>
/// <param name="abandon">Gives up the delivery under way.</param>
internal sealed class ReceivingSession(MqttOptions options, Lazy<IReadOnlyList<MqttSubscription>> subscriptions, Func<IArrivals> createArrivals, BatchReceiver receiver,
    TimeProvider timeProvider, ReceiverLog log, MqttNodeLease? lease, PublishQueue? publisher, CancellationToken abandon) : IConnectionUser
{
    // Without a publisher it is the only packet of the connection with an id, so any id will do.
    private const ushort SubscribePacketId = 1;

    private const string NoConnection = "There is no connection.";

    private readonly TaskCompletionSource _firstAttempt = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly IArrivals _arrivals = createArrivals();
    private readonly InboundState _state = new(log);
    private volatile ISubscribedConnection? _connection;
    private Task _lastDelivery = Task.CompletedTask;
    private volatile bool _isStopped;
    private volatile string? _fault = NoConnection;

    // True once the broker has answered the subscriptions. Before that, a session may be that of an earlier process, and this one still needs the retained messages.
    private bool _hasSubscribed;
    private bool _hasToldExpiry;

    // Those that the broker of this connection can have. The others are refused, each by itself.
    private IReadOnlyList<MqttSubscription> _supported = [];

    /// <summary>Completes when the first attempt to connect and subscribe has succeeded or failed, or when the broker's answer is late.</summary>
    public Task FirstAttempt => _firstAttempt.Task;

    /// <summary>A human-readable reason why not all subscriptions are active; null when they are.</summary>
    public string? Fault => _fault;

    /// <summary>True while the next hop has not accepted the messages of the last read.</summary>
    public bool IsDelivering => _connection?.IsDelivering ?? false;

    /// <summary>The number of messages that were skipped. Thread-safe.</summary>
    public long Skipped => _state.Quarantine.Skipped;

    public void ConnectFailed(MqttConnectException failure) => _firstAttempt.TrySetResult();

    /// <summary>Finds out whether this process has the node's number now: with the same client id, a connection would end that of the process that has it, and take what waits there.</summary>
    /// <exception cref="MqttConnectException">Another process has the number, or the broker can't be asked.</exception>
    public async Task EnsureMayConnectAsync(CancellationToken cancellationToken)
    {
        if (await FindObstacleAsync(cancellationToken).ConfigureAwait(false) is { } obstacle)
            throw new MqttConnectException(obstacle);
    }

    /// <summary>Ends the wait for the first attempt; there will be no more connections.</summary>
    public void Close() => _firstAttempt.TrySetResult();

    public async Task<string> ServeAsync(MqttConnection connection, CancellationToken cancellationToken)
    {
        _supported = [.. subscriptions.Value.Where(subscription => FindUnsupported(subscription, connection) is null)];
        var unfit = _supported.Count == 0 && publisher is null ? FindUnsupported(subscriptions.Value[0], connection) : null;
        // Asked again, because the process may have been frozen while it connected. Nothing of this connection has been read yet.
        if ((unfit ?? await FindObstacleAsync(cancellationToken).ConfigureAwait(false)) is { } obstacle)
        {
            _firstAttempt.TrySetResult();
            return await connection.AbandonAsync(obstacle, cancellationToken).ConfigureAwait(false);
        }

        _state.Connect(connection.Limits.IsSessionPresent);
        var output = connection.Open(publisher);
        var subscribed = _connection = Create(connection, output);
        // Either the stop sees this connection, or it is seen here.
        Interlocked.MemoryBarrier();
        if (_isStopped)
            _ = subscribed.CloseAsync();
        try
        {
            _fault = "The broker has not answered the subscriptions yet.";
            var packets = SubscribePacket.Split(_supported, connection.Version, connection.Limits.MaxPacketBytes);
            var answer = packets.TryDequeue(out var first) ? Subscribe(first, connection, output, subscribed) : null;
            publisher?.Open(output);
            return await RunAsync(connection, output, subscribed, answer, packets, cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            _fault = NoConnection;
            _lastDelivery = subscribed.CloseAsync();
            _firstAttempt.TrySetResult();
        }
    }

    /// <summary>Stops delivering over a connection that stays open for its publisher, and completes when the delivery under way has ended.</summary>
    public Task StopDeliveringAsync()
    {
        _isStopped = true;
        Interlocked.MemoryBarrier();
        return _connection?.CloseAsync() ?? Task.CompletedTask;
    }

    private ISubscribedConnection Create(MqttConnection connection, PacketOutput output)
    {
        var delivery = new LeasedDelivery(lease, connection.Abandon);
        if (publisher is not null)
            return new SharedConnection(publisher, createArrivals, receiver, output, connection, options.MaxPacketBytes, _state, delivery, _lastDelivery, abandon);

        // The broker still has the messages of a connection that broke before they were delivered.
        _arrivals.Clear();
        return new SubscribedConnection(_arrivals, receiver, output, connection.Version, _state, delivery, abandon);
    }

    // One packet is answered before the next is sent, because a connection that also publishes has one packet id for them.
    private Task<SubackPacket> Subscribe(List<MqttSubscription> packet, MqttConnection connection, PacketOutput output, ISubscribedConnection subscribed)
    {
        var answer = subscribed.ExpectAnswer();
        var isRepeated = _hasSubscribed && connection.Limits.IsSessionPresent;
        output.Append(SubscribePacket.Write(publisher?.FindUnusedPacketId() ?? SubscribePacketId, packet, connection.Version, isRepeated));
        output.Flush();
        return answer;
    }

    // Null when this process has the number, or needs none: after the stop only the publisher uses the connection, but it does not end that of another process with the number.
    private async Task<string?> FindObstacleAsync(CancellationToken cancellationToken) =>
        lease is null || (_isStopped && lease.TakenReason is null) ? null : await lease.AskAsync().WaitAsync(cancellationToken).ConfigureAwait(false);

    private static string Describe(SubackPacket suback, int index)
    {
        var code = suback.ReasonCodes[index];
        var says = suback.Reason is { } reason ? $" It says: {MqttTopics.Show(reason)}." : "";
        return string.Create(CultureInfo.InvariantCulture, $"{code} (0x{(int)code:X2}).{says}");
    }

    private async Task<string> RunAsync(MqttConnection connection, PacketOutput output, ISubscribedConnection subscribed, Task<SubackPacket>? answer,
        Queue<List<MqttSubscription>> others, CancellationToken cancellationToken)
    {
        // The first read may be delivered before the call returns, so the time counts from here.
        var start = timeProvider.GetTimestamp();
        var running = connection.RunAsync(subscribed, cancellationToken);
        var answers = new List<SubackPacket>();
        for (; answer is not null; answer = others.TryDequeue(out var next) ? Subscribe(next, connection, output, subscribed) : null)
        {
            await AwaitAnswerAsync(connection, start, answer, running).ConfigureAwait(false);
            if (!answer.IsCompletedSuccessfully)
                break;
            answers.Add(await answer.ConfigureAwait(false));
        }

        if (answer is null)
        {
            EvaluateAnswer(new SubackPacket(SubscribePacketId, [.. answers.SelectMany(static packet => packet.ReasonCodes)], answers.Find(static packet => packet.Reason is not null)?.Reason), connection);
            _hasSubscribed |= _supported.Count > 0;
            _firstAttempt.TrySetResult();
        }

        if (lease?.Taken is { } taken && await Task.WhenAny(running, taken).ConfigureAwait(false) == taken)
            connection.Abandon(await taken.ConfigureAwait(false));
        return await running.ConfigureAwait(false);
    }

    // Mosquitto sends the messages of a resumed session before its answer, so a slow next hop delays the answer. Only the time counts in which the connection is read
    // and the broker is silent.
    private async Task AwaitAnswerAsync(MqttConnection connection, long start, Task answer, Task running)
    {
        var limit = options.ConnectTimeout;
        using var ended = new CancellationTokenSource();
        while (!answer.IsCompleted && !running.IsCompleted)
        {
            var left = limit - connection.SilentFor;
            if (left <= TimeSpan.Zero)
            {
                connection.Abandon($"The broker did not answer the subscriptions within {limit} ({nameof(MqttOptions.ConnectTimeout)}).");
                return;
            }

            if (timeProvider.GetElapsedTime(start) >= limit)
                _firstAttempt.TrySetResult();
            await Task.WhenAny(answer, running, Task.Delay(WholeMilliseconds.Of(left), timeProvider, ended.Token)).ConfigureAwait(false);
        }

        await ended.CancelAsync().ConfigureAwait(false);
    }

    private void EvaluateAnswer(SubackPacket suback, MqttConnection connection)
    {
        var target = connection.Target;
        if (suback.ReasonCodes.Count != _supported.Count)
        {
            _fault = $"The broker answered {suback.ReasonCodes.Count} of {_supported.Count} subscriptions.";
            return;
        }

        string? fault = null;
        foreach (var subscription in subscriptions.Value)
        {
            if (FindUnsupported(subscription, connection) is not { } unsupported)
                continue;
            Log.SubscriptionRefused(log.Logger, MqttTopics.Show(subscription.Filter), target, unsupported);
            fault ??= unsupported;
        }

        for (var index = 0; index < _supported.Count; index++)
        {
            var filter = MqttTopics.Show(_supported[index].Filter);
            if (suback.ReasonCodes[index] >= MqttReasonCode.UnspecifiedError)
            {
                var reason = Describe(suback, index);
                Log.SubscriptionRefused(log.Logger, filter, target, reason);
                fault ??= $"{target} refused the subscription {filter}: {reason}";
            }
            else if ((int)suback.ReasonCodes[index] < (int)_supported[index].QualityOfService)
            {
                Log.SubscriptionLowered(log.Logger, filter, target);
            }
        }

        // MQTT 5, section 3.2.2.3.2: the broker's answer replaces what was asked for.
        if (connection.Limits.SessionExpiry is { } seconds && TimeSpan.FromSeconds(seconds) is var granted && granted < options.SessionExpiry && !Interlocked.Exchange(ref _hasToldExpiry, true))
            Log.SessionExpiryLowered(log.Logger, target, granted, options.SessionExpiry);
        _fault = fault;
        if (fault is null)
            log.Receiving($"{_supported.Count} subscriptions", target);
    }

    // Brokers react differently to an unsupported subscription; some close the connection.
    private static string? FindUnsupported(MqttSubscription subscription, MqttConnection connection)
    {
        var limits = connection.Limits;
        if (SubscribePacket.Measure(subscription, connection.Version) > limits.MaxPacketBytes)
            return $"The broker accepts packets of {limits.MaxPacketBytes} bytes at most, too few for the subscription {MqttTopics.Show(subscription.Filter)}.";
        if (!limits.IsSharedSubscriptionAvailable && subscription.Filter.StartsWith(MqttTopics.SharePrefix, StringComparison.Ordinal))
            return $"The broker has no shared subscriptions; {MqttTopics.Show(subscription.Filter)} is one.";
        return !limits.IsWildcardSubscriptionAvailable && subscription.Filter.AsSpan().ContainsAny('+', '#')
            ? $"The broker has no wildcard subscriptions; {MqttTopics.Show(subscription.Filter)} is one."
            : null;
    }
}
