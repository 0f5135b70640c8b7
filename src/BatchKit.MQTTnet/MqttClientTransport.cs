using BatchKit.MQTTnet.Publishing;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using MQTTnet;

namespace BatchKit.MQTTnet;

/// <summary>Publishes batches over the MQTTnet client of an application: a handle is a topic. The publishes of a send are started in order and awaited together.</summary>
/// <remarks>
/// The application owns the client: it connects, reconnects and disposes it. While the client is not connected, sends fail immediately and dispatch retries them.
/// Create the transport before the client connects, so that it learns the broker's limits. Control messages have no meaning on a topic and are not published. At QoS
/// 1 each message arrives at least once: a batch that was only partly acknowledged is published again as a whole. Thread-safe.
/// </remarks>
public sealed class MqttClientTransport : IBatchTransport, IDisposable
{
    // The largest remaining length (MQTT 5, section 1.5.5), less the longest topic and the rest of the packet's header.
    private const int MaxPayloadBytes = 268_435_455 - OutputHandle.MaxNameBytes - 64;

    private readonly PublishParts _parts;
    private volatile bool _isDisposed;

    /// <summary>Creates a transport.</summary>
    /// <param name="client">The application's client; it should not be connected yet.</param>
    /// <param name="options">The settings; the defaults when null.</param>
    /// <param name="logger">The logger; null logs nothing.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public MqttClientTransport(IMqttClient client, MqttClientTransportOptions? options = null, ILogger<MqttClientTransport>? logger = null)
    {
        ArgumentNullException.ThrowIfNull(client);
        options ??= new MqttClientTransportOptions();
        OptionsRules.ThrowIfInvalid(new MqttClientTransportOptionsValidator(), options);
        var window = new PublishWindow(options.PublishWindow);
        var watch = new ClientWatch(client, window, options.ReceiveMaximum, options.ConnectionChanged, TimeProvider.System, logger ?? NullLogger<MqttClientTransport>.Instance);
        window.Limit(options.ReceiveMaximum);
        var settings = new PublishSettings(options.QualityOfService, options.Retain, options.Expiry);
        _parts = new PublishParts(client, watch, window, new PropertyLists(), settings, options.AllowSystemTopics);
    }

    /// <summary>True: the caller's thread only writes to the client's socket or channel. Everything else is awaited.</summary>
    public bool SendsWithoutBlocking => true;

    /// <inheritdoc/>
    public int MaxMessageBytes => MaxPayloadBytes;

    /// <summary>1 MiB: the broker acknowledges each message by itself, and a whole send must end within <see cref="OutputBufferOptions.SendTimeout"/>.</summary>
    public int MaxSendBytes => 1024 * 1024;

    /// <summary>The current limit of unacknowledged publishes: <see cref="MqttClientTransportOptions.PublishWindow"/>, or the broker's Receive Maximum if that is lower.</summary>
    public int Window => _parts.Window.Size;

    /// <summary>The number of unacknowledged publishes, including those of abandoned sends. It is at most <see cref="Window"/>, unless the broker has lowered its limit at a reconnect.</summary>
    public int InFlightMessages => _parts.Window.InFlight;

    /// <summary>Publishes the batches, and completes when the broker has acknowledged all messages; at QoS 0, when the client has written them.</summary>
    /// <remarks>A cancellation does not stop publishes that have started, because MQTTnet can't safely cancel them; they count against the window until they end.</remarks>
    /// <inheritdoc cref="IBatchTransport.SendAsync"/>
    /// <exception cref="IOException">The client is not connected, or lost its connection before anything was acknowledged.</exception>
    /// <exception cref="ObjectDisposedException">The transport is disposed.</exception>
    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        cancellationToken.ThrowIfCancellationRequested();
        if (!_parts.Client.IsConnected)
            throw _parts.Watch.Refuse();
        var send = new PublishSend(_parts, batches);
        var isStarted = false;
        OperationCanceledException? cancellation = null;
        var endedBefore = _parts.Window.Ended;
        try
        {
            while (!(isStarted = send.StartUntilFull()))
                await _parts.Window.WaitForCapacityAsync().WaitAsync(cancellationToken).ConfigureAwait(false);
            await send.Ended.WaitAsync(cancellationToken).ConfigureAwait(false);
        }
        catch (OperationCanceledException exception)
        {
            if (!isStarted)
                send.Abandon();
            cancellation = _parts.Window.FindStall(endedBefore) is { } stall ? new OperationCanceledException(stall, exception, cancellationToken) : exception;
        }

        if (send.ToException(cancellation) is { } failure)
            throw failure;
    }

    /// <summary>Publishes MQTTnet's own messages, and completes when each has its result. The publishes are started in the order of the messages and awaited together.</summary>
    /// <remarks>
    /// Each message has its own QoS (0, 1 or 2), retain flag and properties; the transport's settings for these do not apply. All calls and sends share <see cref="Window"/>. Messages with
    /// QoS 0 and 1 arrive in order. MQTTnet releases QoS 2 messages concurrently, so these may overtake each other. A refused message does not stop the others. When the connection is
    /// lost, unacknowledged messages fail and later ones are not sent, even if the client has reconnected: each message's result tells which of the two happened, and the call does not
    /// publish again. After a cancellation no further message is started. Publishes that have started continue, because MQTTnet can't safely cancel them, and count against the window until
    /// they end.
    /// </remarks>
    /// <param name="messages">
    /// The messages. They and their memory must stay unchanged until the task has ended. After a cancellation their lists of properties may be changed, but not their payloads and correlation data, until
    /// <see cref="InFlightMessages"/> is zero.
    /// </param>
    /// <param name="cancellationToken">Prevents further messages from being started. Messages that were started may or may not arrive.</param>
    /// <returns>The results in the order of the messages.</returns>
    /// <exception cref="ArgumentException">A message is null; nothing is published.</exception>
    /// <exception cref="IOException">The client is not connected; nothing is published.</exception>
    /// <exception cref="ObjectDisposedException">The transport is disposed.</exception>
    /// <exception cref="OperationCanceledException">The call was cancelled.</exception>
    public ValueTask<PublishManyReport> PublishManyAsync(ReadOnlyMemory<MqttApplicationMessage> messages, CancellationToken cancellationToken = default)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        MessageTexts.ThrowIfAnyIsNull(messages.Span);
        cancellationToken.ThrowIfCancellationRequested();
        if (messages.IsEmpty)
            return default;
        if (!_parts.Client.IsConnected)
            throw _parts.Watch.Refuse();
        return new ManyPublish(_parts, messages, cancellationToken.CanBeCanceled).RunAsync(cancellationToken);
    }

    /// <summary>Detaches from the client without disposing it. Dispose the buffer first.</summary>
    public void Dispose()
    {
        _isDisposed = true;
        _parts.Watch.Dispose();
    }
}
