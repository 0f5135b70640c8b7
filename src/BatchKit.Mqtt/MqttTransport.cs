using BatchKit.Mqtt.Connections;
using BatchKit.Mqtt.Publishing;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using Microsoft.Extensions.Options;

namespace BatchKit.Mqtt;

/// <summary>Publishes batches over MQTT: a handle is a topic, and every message of a send is a packet, as many in one write as fit.</summary>
/// <remarks>
/// It connects at the first send, and again by itself after it lost the connection; what was not acknowledged by then is sent again, in order. All its sends share one connection,
/// so side by side they keep their order. Thread-safe. Register it with <c>UseMqtt</c>, or make it by hand and dispose it after the buffer.
/// </remarks>
public sealed class MqttTransport : IBatchTransport, IMqttPublisher, IAsyncDisposable
{
    private readonly MqttOptions _options;
    private readonly PublishQueue _queue;
    private readonly MqttLink _link;

    // Null unless frames are to be published.
    private readonly EnvelopePublisher? _envelope;

    private volatile bool _isDisposed;
    private volatile bool _isStarted;

    /// <summary>Makes a transport; it does not connect yet.</summary>
    /// <param name="options">Its settings.</param>
    /// <param name="timeProvider">The time; the system's when null.</param>
    /// <param name="logger">Where it logs its connections; nowhere when null.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public MqttTransport(MqttOptions options, TimeProvider? timeProvider = null, ILogger<MqttTransport>? logger = null)
    {
        ArgumentNullException.ThrowIfNull(options);
        MqttOptionsValidator.ThrowIfInvalid(options);
        _options = options;
        timeProvider ??= TimeProvider.System;
        _queue = new PublishQueue(options, timeProvider);
        // A drawn id's session could never be taken up again, and 3.1.1 would keep it for ever.
        var sessionExpiry = options.ClientId is null && options.Version == MqttVersion.V311 ? TimeSpan.Zero : options.SessionExpiry;
        var clientId = options.ClientId ?? $"batchkit-{Guid.NewGuid():N}";
        _link = new MqttLink(options, "transport", clientId, sessionExpiry, _queue, timeProvider, logger ?? NullLogger<MqttTransport>.Instance);
        if (options.EnvelopePrefix is not null)
            _envelope = new EnvelopePublisher(_queue, options, _link.Target, _queue.FindMaxPacketBytes);
    }

    /// <summary>Why it has no connection, for a person and without secrets; null while it has one, or needs none yet.</summary>
    public string? Fault => _isStarted ? _link.Fault : null;

    /// <summary>True: it encodes and hands over to the kernel; connecting and acknowledgements are awaited.</summary>
    public bool SendsWithoutBlocking => true;

    /// <inheritdoc/>
    public int MaxMessageBytes => _options.MaxPacketBytes - PacketLimits.FindOverheadBytes(_options.MaxPacketBytes);

    /// <summary>Publishes every message of the batches, and completes when the broker has acknowledged those of QoS 1 and those of QoS 0 are written.</summary>
    /// <remarks>
    /// In envelope mode (<see cref="MqttOptions.EnvelopePrefix"/>) it publishes frames instead, a message for each destination.
    /// It waits for the connection as long as its token lets it. Given up by its token it goes on where it was left when the same batches are sent again, as dispatch does.
    /// A message that the broker or this side refuses (a bad topic, too large, not allowed) makes its batch count as refused; its neighbours are published.
    /// </remarks>
    /// <inheritdoc cref="IBatchTransport.SendAsync"/>
    /// <exception cref="MqttConnectException">The broker refused the connection.</exception>
    /// <exception cref="IOException">There was no connection when the token was cancelled.</exception>
    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        Start();
        return _envelope is null ? _queue.SendAsync(batches, cancellationToken) : _envelope.SendAsync(batches, cancellationToken);
    }

    /// <inheritdoc/>
    public ValueTask<MqttPublishReport> PublishManyAsync(ReadOnlyMemory<MqttMessage> messages, CancellationToken cancellationToken = default)
    {
        cancellationToken.ThrowIfCancellationRequested();
        Start();
        return _queue.PublishManyAsync(messages, cancellationToken);
    }

    /// <summary>What it has done so far, at any time and from any thread.</summary>
    public MqttTransportStatistics GetStatistics() => _queue.GetStatistics();

    /// <summary>Says goodbye and closes the connection. Dispose the buffer first: what is being sent fails.</summary>
    public async ValueTask DisposeAsync()
    {
        if (Interlocked.Exchange(ref _isDisposed, true))
            return;
        await _link.DisposeAsync().ConfigureAwait(false);
        _queue.Dispose();
    }

    /// <summary>Why it cannot send now, or null when it can; connects to find out.</summary>
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
        // Its end is awaited when the link is disposed; the first attempt's outcome reaches the sends that wait for it.
        _ = _link.StartAsync();
    }
}

/// <summary>What a transport has done so far, and what it has under way.</summary>
public readonly record struct MqttTransportStatistics
{
    /// <summary>Messages that were given to it, by buffers and by calls.</summary>
    public long AcceptedMessages { get; init; }

    /// <summary>Of these, acknowledged by the broker (QoS 1) or written (QoS 0).</summary>
    public long AcknowledgedMessages { get; init; }

    /// <summary>Of these, refused: by this side for a bad topic or a size, or by the broker with a reason code.</summary>
    public long RefusedMessages { get; init; }

    /// <summary>QoS 0 messages that were just being written when a connection was lost: they may have gone with it. They count as acknowledged too.</summary>
    public long LostMessages { get; init; }

    /// <summary>How often a message was sent again after a lost connection.</summary>
    public long ResentMessages { get; init; }

    /// <summary>How often it has connected.</summary>
    public long Connects { get; init; }

    /// <summary>The most messages that may wait for their acknowledgement now: the smaller of <see cref="MqttOptions.PublishWindow"/> and the broker's Receive Maximum. Zero before the first connect.</summary>
    public int Window { get; init; }

    /// <summary>How many wait for it on this connection.</summary>
    public int InFlightMessages { get; init; }
}

/// <summary>What a packet must hold for a buffer: a message with its topic, and in envelope mode a batch.</summary>
internal static class PacketLimits
{
    // What a packet has beside topic, header and payload.
    private const int FixedBytes = 64;

    /// <summary>What to leave for all but the message: a topic of the longest kind too, unless that would take most of the packet. Then a long one's packet may turn out too large when it is sent.</summary>
    public static int FindOverheadBytes(int maxPacketBytes) =>
        maxPacketBytes / 2 < OutputHandle.MaxNameBytes ? FixedBytes : OutputHandle.MaxNameBytes + FixedBytes;

    public static void ThrowIfTooSmall(string name, MqttOptions options, OutputBufferOptions buffer)
    {
        var overheadBytes = FindOverheadBytes(options.MaxPacketBytes);
        if (options.MaxPacketBytes < (long)buffer.MaxMessageBytes + overheadBytes)
        {
            throw Broken(name, options, $"{overheadBytes} bytes, which a packet takes beside its message, above {nameof(OutputBufferOptions)}.{nameof(OutputBufferOptions.MaxMessageBytes)} "
                + $"({buffer.MaxMessageBytes})");
        }

        // Beside its messages' bytes a frame has their lengths and headers.
        if (options.EnvelopePrefix is not null && options.MaxPacketBytes < 2L * buffer.MaxBatchBytes)
            throw Broken(name, options, $"twice {nameof(OutputBufferOptions)}.{nameof(OutputBufferOptions.MaxBatchBytes)} ({buffer.MaxBatchBytes})");
    }

    private static OptionsValidationException Broken(string name, MqttOptions options, string least) =>
        new(name, typeof(MqttOptions), [$"{nameof(MqttOptions.MaxPacketBytes)} ({options.MaxPacketBytes}) must be at least {least}."]);
}
