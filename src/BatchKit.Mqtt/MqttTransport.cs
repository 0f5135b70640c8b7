using BatchKit.Diagnostics;
using BatchKit.Mqtt.Connections;
using BatchKit.Mqtt.Publishing;
using BatchKit.Mqtt.Receiving;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace BatchKit.Mqtt;

/// <summary>Publishes batches over MQTT: a handle is a topic, every message is a packet, and one write carries as many packets as fit.</summary>
/// <remarks>
/// It connects at the first send and reconnects after a lost connection; unacknowledged messages are then sent again, in order. All sends share one connection,
/// so concurrent sends keep their order. Thread-safe. Register it with <c>UseMqtt</c>, or create it yourself and dispose it after the buffer.
/// </remarks>
public sealed class MqttTransport : IBatchTransport, IMqttPublisher, IBlockingDisposable
{
    private readonly MqttOptions _options;
    private readonly GuardedLogger _logger;
    private readonly PublishQueue _queue;
    private readonly ConnectionUsers _user;
    private readonly MqttLink _link;

    // Null unless envelope mode is on.
    private readonly EnvelopePublisher? _envelope;

    private volatile bool _isDisposed;
    private volatile bool _isStarted;

    /// <summary>Creates a transport; it does not connect yet.</summary>
    /// <param name="options">The settings.</param>
    /// <param name="timeProvider">The source of time; the system's clock when null.</param>
    /// <param name="logger">The logger of its connections; null logs nothing. What it throws is counted, and the health check reports it.</param>
    /// <param name="signer">Signs the frames of envelope mode; null for none. Other messages are not signed.</param>
    /// <param name="metrics">The instruments of its connection; null for none.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public MqttTransport(MqttOptions options, TimeProvider? timeProvider = null, ILogger<MqttTransport>? logger = null, FrameSigner? signer = null,
        ConnectionMetrics? metrics = null)
    {
        ArgumentNullException.ThrowIfNull(options);
        OptionsRules.ThrowIfInvalid(new MqttOptionsValidator(), options);
        _options = options = options.Copy();
        options.Will = options.Will is { } will ? new TopicPolicy(options).Resolve(will) : null;
        timeProvider ??= TimeProvider.System;
        _logger = GuardedLogger.Of(logger);
        _queue = new PublishQueue(options, timeProvider);
        // The session of a random client id could never be resumed, and MQTT 3.1.1 would keep it for ever.
        var sessionExpiry = options.ClientId is null && options.Version == MqttVersion.V311 ? TimeSpan.Zero : options.SessionExpiry;
        var clientId = options.ClientId ?? $"batchkit-{Guid.NewGuid():N}";
        _user = new ConnectionUsers(_queue);
        _link = new MqttLink(options, options.SharesConnection ? MqttLink.Both : MqttLink.Transport, clientId, sessionExpiry, _user, timeProvider, _logger, metrics);
        if (options.EnvelopePrefix is not null)
            _envelope = new EnvelopePublisher(_queue, options, _link.Target, _queue.FindMaxPacketBytes, signer);
    }

    /// <summary>A human-readable reason why it has no connection, without secrets; null while it is connected or has not been used yet.</summary>
    public string? Fault => _isStarted ? _link.Fault : null;

    /// <summary>True: the caller's thread only encodes packets and writes them to the socket. Connecting and acknowledgements are awaited.</summary>
    public bool SendsWithoutBlocking => true;

    /// <inheritdoc/>
    public int MaxMessageBytes => _options.MaxPacketBytes - PacketLimits.FindOverheadBytes(_options);

    /// <summary>The largest batch of a frame in envelope mode, within the broker's limit too once it is known; otherwise without a limit, because each message has a packet.</summary>
    public int MaxBatchBytes => _envelope is null ? int.MaxValue : _envelope.MaxBatchBytes;

    /// <summary>1 MiB: the broker acknowledges each message by itself, and a whole send must end within <see cref="OutputBufferOptions.SendTimeout"/>.</summary>
    public int MaxSendBytes => 1024 * 1024;

    /// <inheritdoc/>
    public FrameDestination GetDestination(OutputHandle handle) => FrameDestination.Of(handle, _options.DestinationNode);

    /// <inheritdoc/>
    public string LimitingSetting => $"{nameof(MqttOptions)}.{nameof(MqttOptions.MaxPacketBytes)}";

    /// <summary>Publishes every message of the batches. Completes when the broker has acknowledged the messages with QoS 1 and those with QoS 0 are written.</summary>
    /// <remarks>
    /// In envelope mode (<see cref="MqttOptions.EnvelopePrefix"/>) it publishes frames instead, one message for each destination.
    /// It waits for a connection until its token is cancelled. When dispatch sends the same batches again after a cancellation, the send continues where it stopped.
    /// If the broker or this client refuses a message (a bad topic, too large, not authorized), its batch counts as refused; the other messages are published.
    /// </remarks>
    /// <inheritdoc cref="IBatchTransport.SendAsync"/>
    /// <exception cref="MqttConnectException">The broker refused the connection.</exception>
    /// <exception cref="IOException">There was no connection when the token was cancelled; or there is none now, and <see cref="MqttOptions.FailFast"/> is set.</exception>
    /// <exception cref="ObjectDisposedException">The transport is disposed.</exception>
    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        Start();
        if (_options.FailFast)
            _queue.ThrowIfNotConnected();
        return _envelope is null ? _queue.SendAsync(batches, cancellationToken) : _envelope.SendAsync(batches, cancellationToken);
    }

    /// <inheritdoc/>
    public ValueTask<MqttPublishReport> PublishManyAsync(ReadOnlyMemory<MqttMessage> messages, CancellationToken cancellationToken = default)
    {
        cancellationToken.ThrowIfCancellationRequested();
        Start();
        if (_options.FailFast)
            _queue.ThrowIfNotConnected();
        return _queue.PublishManyAsync(messages, cancellationToken);
    }

    /// <summary>The counts so far. Thread-safe.</summary>
    public MqttTransportStatistics GetStatistics() => _queue.GetStatistics();

    /// <summary>Disconnects and closes the connection. Dispose the buffer first: sends that have not ended fail.</summary>
    public async ValueTask DisposeAsync()
    {
        if (Interlocked.Exchange(ref _isDisposed, true))
            return;
        await _link.DisposeAsync().ConfigureAwait(false);
        _queue.Dispose();
    }

    internal ObserverFaults ObserverFaults => _logger.Faults;

    internal string? CallbackFault => _link.CallbackFault;

    internal MqttOptions Options => _options;

    internal MqttLink Link => _link;

    internal PublishQueue Queue => _queue;

    /// <summary>Lets a receiver use the transport's connections too.</summary>
    /// <exception cref="InvalidOperationException">The transport does not share its connection, shares it already, or has begun to connect.</exception>
    internal void Attach(ReceivingSession session)
    {
        if (!_options.SharesConnection)
            throw new InvalidOperationException($"The transport does not share its connection: set {nameof(MqttOptions)}.{nameof(MqttOptions.SharesConnection)}.");
        if (_isStarted || !_user.TryAttach(session))
            throw new InvalidOperationException("Create the receiver before the transport sends, and only one.");
    }

    /// <summary>Begins to connect; completes after the first attempt.</summary>
    internal Task StartLinkAsync()
    {
        Start();
        return _link.StartAsync();
    }

    /// <summary>Connects when <see cref="MqttOptions.FailFast"/> is set, so that the host does not start without the broker.</summary>
    internal async Task StartAsync(CancellationToken cancellationToken)
    {
        if (_options.FailFast && await FindFaultAsync(cancellationToken).ConfigureAwait(false) is { } fault)
            throw new IOException(fault);
    }

    /// <summary>Returns why the transport can't send now, or null when it can. Connects to find out.</summary>
    internal async Task<string?> FindFaultAsync(CancellationToken cancellationToken)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        _isStarted = true;
        await _link.StartAsync().WaitAsync(cancellationToken).ConfigureAwait(false);
        return _link.Fault;
    }

    private void Start()
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        if (_isStarted)
            return;
        _isStarted = true;
        // The link awaits this task when it is disposed, and the queue reports the outcome of the first attempt to the sends.
        _ = _link.StartAsync();
    }
}

/// <summary>Uses the connections of a transport to publish, and also to receive if a receiver shares them.</summary>
internal sealed class ConnectionUsers(PublishQueue queue) : IConnectionUser
{
    private volatile ReceivingSession? _receiving;

    public bool TryAttach(ReceivingSession session) => Interlocked.CompareExchange(ref _receiving, session, null) is null;

    public void Connect(MqttConnection connection) => queue.Connect(connection);

    public Task<string> ServeAsync(MqttConnection connection, CancellationToken cancellationToken) => _receiving is { } receiving
        ? queue.ServeAsync(connection, () => receiving.ServeAsync(connection, cancellationToken))
        : queue.ServeAsync(connection, cancellationToken);

    public Task EnsureMayConnectAsync(CancellationToken cancellationToken) => _receiving?.EnsureMayConnectAsync(cancellationToken) ?? Task.CompletedTask;

    public void ConnectFailed(MqttConnectException failure)
    {
        queue.ConnectFailed(failure);
        _receiving?.ConnectFailed(failure);
    }
}

/// <summary>The counts of a transport so far, and its messages in flight.</summary>
public readonly record struct MqttTransportStatistics
{
    /// <summary>Messages that were accepted, from buffers and from calls.</summary>
    public long AcceptedMessages { get; init; }

    /// <summary>Accepted messages that the broker has acknowledged (QoS 1) or that were written (QoS 0).</summary>
    public long AcknowledgedMessages { get; init; }

    /// <summary>Accepted messages that were refused: by this client for a bad topic or their size, or by the broker with a reason code.</summary>
    public long RefusedMessages { get; init; }

    /// <summary>QoS 0 messages that were being written when a connection was lost, and may be lost with it. They count as acknowledged too.</summary>
    public long LostMessages { get; init; }

    /// <summary>How many times messages were sent again after a lost connection.</summary>
    public long ResentMessages { get; init; }

    /// <summary>How many times it has connected.</summary>
    public long Connects { get; init; }

    /// <summary>
    /// The current limit of unacknowledged messages: the smaller of <see cref="MqttOptions.PublishWindow"/> and the broker's Receive Maximum. Zero before the first
    /// connect.
    /// </summary>
    public int Window { get; init; }

    /// <summary>Messages on this connection that wait for their acknowledgement.</summary>
    public int InFlightMessages { get; init; }
}

/// <summary>Checks that the packet limit is large enough for a message of a buffer with its topic.</summary>
internal static class PacketLimits
{
    // The bytes of a packet besides topic, header and payload.
    private const int FixedBytes = 64;

    /// <summary>
    /// The bytes to reserve besides the message. This includes the longest topic, unless that would take more than half of the packet; then a send refuses a message
    /// whose long topic makes its packet too large.
    /// </summary>
    public static int FindOverheadBytes(MqttOptions options) =>
        FixedBytes + (options.PublishesTraceContext ? TracedProperties.MaxBytes : 0) + (options.MaxPacketBytes / 2 < OutputHandle.MaxNameBytes ? 0 : OutputHandle.MaxNameBytes);

    public static void ThrowIfTooSmall(string name, MqttOptions options, OutputBufferOptions buffer)
    {
        var overheadBytes = FindOverheadBytes(options);
        if (options.MaxPacketBytes < (long)buffer.MaxMessageBytes + overheadBytes)
        {
            throw Broken(name, options, $"{overheadBytes} bytes, which a packet needs besides its message, above {nameof(OutputBufferOptions)}.{nameof(OutputBufferOptions.MaxMessageBytes)} "
                + $"({buffer.MaxMessageBytes})");
        }
    }

    private static OptionsValidationException Broken(string name, MqttOptions options, string least) =>
        new(name, typeof(MqttOptions), [$"{nameof(MqttOptions)}.{nameof(MqttOptions.MaxPacketBytes)} ({options.MaxPacketBytes}) must be at least {least}."]);
}
