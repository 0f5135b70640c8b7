using BatchKit.Diagnostics;
using BatchKit.Mqtt.Connections;
using BatchKit.Mqtt.Publishing;
using BatchKit.Mqtt.Receiving;
using BatchKit.Transports;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace BatchKit.Mqtt;

/// <summary>Receives messages from an MQTT broker, in order, and delivers them to the next transport in batches.</summary>
/// <remarks>
/// <para>
/// The messages of one read from the connection are delivered together: consecutive messages on one topic become a batch for the handle with that name
/// (<see cref="OutputHandle.Named"/>), with content type, response topic, correlation data, retain flag and user properties in their headers. The duplicate flag is
/// not passed on. With <see cref="MqttOptions.EnvelopePrefix"/> each message is a frame of a BatchKit sender, for this node or for all nodes.
/// </para>
/// <para>
/// The receiver acknowledges a message when the next transport has accepted it or refused it. Until then the broker keeps the message, and sends it again
/// after a lost connection: delivery is at least once, and exactly once in envelope mode. While the next transport is busy, the receiver reads nothing (with
/// <see cref="MqttOptions.SharesConnection"/> it keeps reading up to a limit). So a slow next transport holds up the broker, which may drop messages above its own limit (1,000
/// messages for each client on Mosquitto, <c>max_queued_messages</c>). The receiver reconnects after a lost connection. <c>ReceiveFromMqtt</c> registers it as a hosted
/// service; without a host, start and stop it yourself.
/// </para>
/// </remarks>
public sealed class MqttReceiver : IHostedService, IBlockingDisposable
{
    private readonly MqttOptions _options;
    private readonly BatchReceiver _receiver;
    private readonly TimeProvider _timeProvider;
    private readonly GuardedLogger _logger;
    private readonly ReceiverLog _log;
    private readonly HeldFrame _held;
    private readonly ReceivingSession _session;
    private readonly MqttLink _link;

    // Null when no number is leased.
    private readonly MqttNodeLease? _lease;

    // Null for a receiver with connections of its own.
    private readonly MqttTransport? _transport;
    private readonly CancellationTokenSource _abandoning = new();

    private bool _isDisposed;
    private bool _isGivenUp;
    private volatile string? _whyInactive = "The receiver has not started.";

    /// <summary>Creates a receiver; it does not connect yet.</summary>
    /// <param name="options">The settings.</param>
    /// <param name="node">The number of this process's node. In envelope mode the receiver takes the frames for this node; otherwise it is part of the batches' producer id.</param>
    /// <param name="receiver">
    /// Delivers batches, and drops duplicates in envelope mode. No other receiver may use it.
    /// </param>
    /// <param name="timeProvider">The source of time; the system's clock when null.</param>
    /// <param name="logger">The logger; null logs nothing. What it throws is counted, and the health check reports it.</param>
    /// <param name="metrics">The instruments of its connection; null for none.</param>
    /// <exception cref="ArgumentOutOfRangeException">The node is below 0 or above <see cref="OutputHandle.MaxNode"/>.</exception>
    /// <exception cref="OptionsValidationException">A setting is outside its range, or there is nothing to subscribe to.</exception>
    public MqttReceiver(
        MqttOptions options, int node, BatchReceiver receiver, TimeProvider? timeProvider = null, ILogger<MqttReceiver>? logger = null, ConnectionMetrics? metrics = null)
        : this(options, CreateNumber(node), leasesNode: false, receiver, timeProvider, logger, metrics)
    {
    }

    internal MqttReceiver(
        MqttOptions options, NodeNumber node, bool leasesNode, BatchReceiver receiver, TimeProvider? timeProvider, ILogger<MqttReceiver>? logger, ConnectionMetrics? metrics = null)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(receiver);
        OptionsRules.ThrowIfInvalid(new MqttOptionsValidator(), options);
        ReceivingRules.ThrowIfBroken(options);
        _options = options = options.Copy();
        receiver.ReadFor(node);
        _receiver = receiver;
        _timeProvider = timeProvider ?? TimeProvider.System;
        _logger = GuardedLogger.Of(logger);
        (_log, _held) = (new ReceiverLog(_logger, _timeProvider), new HeldFrame(_timeProvider));
        _lease = leasesNode && options.EnvelopePrefix is not null ? new MqttNodeLease(options, node, _timeProvider, _logger) : null;
        _session = CreateSession(node, publisher: null);
        var clientId = $"{options.ClientId ?? $"batchkit-{Guid.NewGuid():N}"}-receiver";
        _link = new MqttLink(options, MqttLink.Receiver, clientId, options.SessionExpiry, _session, _timeProvider, _logger, metrics);
    }

    /// <summary>Creates a receiver that shares a transport's connection and settings (<see cref="MqttOptions.SharesConnection"/>); it does not connect yet.</summary>
    /// <param name="transport">The transport. Stop the receiver before you dispose it.</param>
    /// <param name="node">The number of this process's node. In envelope mode the receiver takes the frames for this node; otherwise it is part of the batches' producer id.</param>
    /// <param name="receiver">Delivers batches, and drops duplicates in envelope mode. No other receiver may use it.</param>
    /// <param name="timeProvider">The source of time; the system's clock when null.</param>
    /// <param name="logger">The logger; null logs nothing. What it throws is counted, and the health check reports it.</param>
    /// <exception cref="ArgumentOutOfRangeException">The node is below 0 or above <see cref="OutputHandle.MaxNode"/>.</exception>
    /// <exception cref="OptionsValidationException">There is nothing to subscribe to.</exception>
    /// <exception cref="InvalidOperationException">The transport does not share its connection, shares it already, or has begun to connect.</exception>
    public MqttReceiver(MqttTransport transport, int node, BatchReceiver receiver, TimeProvider? timeProvider = null, ILogger<MqttReceiver>? logger = null)
        : this(transport, CreateNumber(node), leasesNode: false, receiver, timeProvider, logger)
    {
    }

    internal MqttReceiver(MqttTransport transport, NodeNumber node, bool leasesNode, BatchReceiver receiver, TimeProvider? timeProvider, ILogger<MqttReceiver>? logger)
    {
        ArgumentNullException.ThrowIfNull(transport);
        ArgumentNullException.ThrowIfNull(receiver);
        ReceivingRules.ThrowIfBroken(transport.Options);
        _options = transport.Options;
        receiver.ReadFor(node);
        _receiver = receiver;
        _timeProvider = timeProvider ?? TimeProvider.System;
        _logger = GuardedLogger.Of(logger);
        (_log, _held) = (new ReceiverLog(_logger, _timeProvider), new HeldFrame(_timeProvider));
        _transport = transport;
        _lease = leasesNode && _options.EnvelopePrefix is not null ? new MqttNodeLease(_options, node, _timeProvider, _logger) : null;
        _session = CreateSession(node, transport.Queue);
        _link = transport.Link;
        transport.Attach(_session);
    }

    /// <summary>A human-readable reason, without secrets, why it receives nothing or not from every subscription, such as a next transport that has had a message for ten seconds; null while it receives.</summary>
    public string? Fault => _whyInactive ?? _lease?.TakenReason ?? _link.Fault ?? _session.Fault ?? _held.Fault;

    internal ObserverFaults ObserverFaults => _logger.Faults;

    /// <summary>A human-readable reason why another process could have the same node number without being detected; null when it would be detected. The receiver still receives.</summary>
    internal string? LeaseFault => _whyInactive is null ? _lease?.Fault : null;

    internal string? CallbackFault => _transport is null ? _link.CallbackFault : null;

    /// <summary>
    /// The number of messages that were acknowledged and dropped before they were read, because their packet is larger than <see cref="MqttOptions.MaxPacketBytes"/> or breaks the protocol.
    /// <see cref="GetStatistics"/> does not count them. Thread-safe.
    /// </summary>
    public long SkippedMessages => _session.Skipped;

    /// <summary>The counts of received, delivered and dropped messages. Thread-safe.</summary>
    public BatchReceiverStatistics GetStatistics() => _receiver.GetStatistics();

    /// <summary>Leases the node's number before anything reads it.</summary>
    /// <exception cref="NodeTakenException">Another process has the number.</exception>
    internal Task LeaseAsync(CancellationToken cancellationToken) => _lease?.TakeAsync(cancellationToken) ?? Task.CompletedTask;

    /// <summary>Starts to receive. Completes after the first attempt to connect and subscribe, even if that failed; the receiver then keeps trying.</summary>
    /// <remarks>
    /// A broker may send the messages of a resumed session before it answers the subscriptions. If the next transport is slow to accept them, the call completes after
    /// <see cref="MqttOptions.ConnectTimeout"/>, and <see cref="Fault"/> reports that the answer is missing.
    /// </remarks>
    /// <param name="cancellationToken">Ends the wait for the first attempt.</param>
    /// <exception cref="IOException">The broker can't be reached, or refuses the connection, and <see cref="MqttOptions.FailFast"/> is set.</exception>
    public async Task StartAsync(CancellationToken cancellationToken)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        var connecting = _transport?.StartLinkAsync() ?? _link.StartAsync();
        _whyInactive = null;
        await connecting.WaitAsync(cancellationToken).ConfigureAwait(false);
        await _session.FirstAttempt.WaitAsync(cancellationToken).ConfigureAwait(false);
        if (_options.FailFast && _link.Fault is { } fault)
            throw new IOException(fault);
    }

    /// <summary>Stops reading, finishes the delivery under way, acknowledges it and disconnects, within <see cref="MqttOptions.StopTimeout"/>. With a <see cref="MqttOptions.ClientId"/> the broker keeps the session for <see cref="MqttOptions.SessionExpiry"/>; else it ends.</summary>
    /// <remarks>A connection that is shared with a transport stays open for the transport. The receiver can't be started again; create another one.</remarks>
    /// <param name="cancellationToken">Abandons the delivery under way immediately.</param>
    public async Task StopAsync(CancellationToken cancellationToken)
    {
        if (_isDisposed || _isGivenUp)
            return;
        var ending = _transport is null ? _link.DisposeAsync().AsTask() : _session.StopDeliveringAsync();
        try
        {
            await ending.WaitAsync(_options.StopTimeout, _timeProvider, cancellationToken).ConfigureAwait(false);
        }
        catch (Exception exception) when (exception is TimeoutException or OperationCanceledException)
        {
            if (_session.IsDelivering)
                _log.FrameAbandoned(_link.Target, _options.StopTimeout);
            _isGivenUp = !await ReceiverLifetime.AbandonAsync(ending, _abandoning, _link.Target, _timeProvider, _log).ConfigureAwait(false);
        }

        _session.Close();
        if (_lease is not null)
            await _lease.DisposeAsync().ConfigureAwait(false);
        _whyInactive = "The receiver has stopped.";
    }

    /// <summary>Stops the receiver if it has not been stopped.</summary>
    public async ValueTask DisposeAsync()
    {
        await StopAsync(CancellationToken.None).ConfigureAwait(false);
        if (Interlocked.Exchange(ref _isDisposed, true))
            return;
        _abandoning.Dispose();
    }

    private static NodeNumber CreateNumber(int node)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(node);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(node, OutputHandle.MaxNode);
        return new NodeNumber(node);
    }

    private ReceivingSession CreateSession(NodeNumber node, PublishQueue? publisher)
    {
        Func<IArrivals> create = _options.EnvelopePrefix is null ? () => new TopicArrivals(node.Value, _log, _held) : () => new FrameArrivals(_log, _held);
        var subscriptions = new Lazy<IReadOnlyList<MqttSubscription>>(() => FindSubscriptions(_options, node));
        return new ReceivingSession(_options, subscriptions, create, _receiver, _timeProvider, _log, _lease, publisher, _abandoning.Token);
    }

    private static IReadOnlyList<MqttSubscription> FindSubscriptions(MqttOptions options, NodeNumber node) => options.EnvelopePrefix is { } prefix
        ? [new MqttSubscription { Filter = EnvelopeTopics.Node(prefix, node.Value) }, new MqttSubscription { Filter = EnvelopeTopics.All(prefix) }]
        : [.. options.Subscriptions];
}

/// <summary>The rules that apply to the options of a receiver only.</summary>
internal static class ReceivingRules
{
    public static void ThrowIfBroken(MqttOptions options)
    {
        if (options.EnvelopePrefix is null && options.Subscriptions.Count == 0)
            throw Broken($"{nameof(MqttOptions)}.{nameof(options.Subscriptions)} is empty, and {nameof(options.EnvelopePrefix)} is not set: set one of them, so that the receiver has something to receive.");
        if (options.Version == MqttVersion.V311 && options.ClientId is null && options.SessionExpiry > TimeSpan.Zero)
        {
            throw Broken($"{nameof(MqttOptions)}.{nameof(options.ClientId)} is not set: MQTT 3.1.1 keeps a session for ever, and a random client id never resumes it: set {nameof(options.ClientId)}, or {nameof(options.SessionExpiry)} "
                + "to zero for a receiver that may lose what arrives while it is not connected.");
        }
    }

    private static OptionsValidationException Broken(string text) => new(Options.DefaultName, typeof(MqttOptions), [text]);
}
