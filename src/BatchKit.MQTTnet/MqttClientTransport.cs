using BatchKit.MQTTnet.Publishing;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using MQTTnet;

namespace BatchKit.MQTTnet;

/// <summary>Publishes batches over the MQTTnet client of an application: a handle is a topic, and the publishes of a send are started in order and awaited together.</summary>
/// <remarks>
/// The client stays the application's: the application connects it, connects it again and disposes it. While it is not connected, sends fail at once and dispatch makes them again. Make the
/// transport before the client connects, so that it hears what the broker allows. Control messages have no meaning on a topic and are left out. Each message arrives at least once at QoS 1; a
/// send that failed in part publishes the unacknowledged batches again, whole.
/// </remarks>
public sealed class MqttClientTransport : IBatchTransport, IDisposable
{
    // MQTT 5, section 1.5.5: the largest remaining length, less the longest topic and the rest of the packet's head.
    private const int MaxPayloadBytes = 268_435_455 - OutputHandle.MaxNameBytes - 64;

    private readonly PublishParts _parts;
    private volatile bool _isDisposed;

    /// <summary>Makes a transport.</summary>
    /// <param name="client">The application's client, best not connected yet.</param>
    /// <param name="options">Its settings; the defaults when null.</param>
    /// <param name="logger">Where it logs; nowhere when null.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public MqttClientTransport(IMqttClient client, MqttClientTransportOptions? options = null, ILogger<MqttClientTransport>? logger = null)
    {
        ArgumentNullException.ThrowIfNull(client);
        options ??= new MqttClientTransportOptions();
        MqttClientTransportOptionsValidator.ThrowIfInvalid(options);
        var window = new PublishWindow(options.PublishWindow);
        var watch = new ClientWatch(client, window, logger ?? NullLogger<MqttClientTransport>.Instance);
        window.Limit(options.ReceiveMaximum);
        var settings = new PublishSettings(options.QualityOfService, options.Retain, options.Expiry);
        _parts = new PublishParts(client, watch, window, new PropertyLists(), settings, options.AllowSystemTopics);
    }

    /// <summary>True: the client writes to its socket or its channel and awaits the rest.</summary>
    public bool SendsWithoutBlocking => true;

    /// <inheritdoc/>
    public int MaxMessageBytes => MaxPayloadBytes;

    /// <summary>The most publishes that may be under way now: <see cref="MqttClientTransportOptions.PublishWindow"/>, or the broker's Receive Maximum where that is lower.</summary>
    public int Window => _parts.Window.Size;

    /// <summary>The publishes under way: at most <see cref="Window"/>, those of abandoned sends included.</summary>
    public int InFlightMessages => _parts.Window.InFlight;

    /// <summary>Publishes the batches, and completes when the broker has acknowledged all messages; at QoS 0, when the client has written them.</summary>
    /// <remarks>After a cancellation the publishes under way go on, as MQTTnet can't take one back; they keep their places in the window until they end.</remarks>
    /// <inheritdoc cref="IBatchTransport.SendAsync"/>
    /// <exception cref="IOException">The client is not connected, or lost its connection before anything was acknowledged.</exception>
    /// <exception cref="ObjectDisposedException">The transport is disposed.</exception>
    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        cancellationToken.ThrowIfCancellationRequested();
        if (!_parts.Client.IsConnected)
            throw new IOException("The application's MQTT client is not connected.");
        var send = new PublishSend(_parts, batches);
        var isStarted = false;
        OperationCanceledException? cancellation = null;
        try
        {
            while (!(isStarted = send.StartWhileRoom()))
                await _parts.Window.WaitForRoomAsync().WaitAsync(cancellationToken).ConfigureAwait(false);
            await send.Ended.WaitAsync(cancellationToken).ConfigureAwait(false);
        }
        catch (OperationCanceledException exception)
        {
            if (!isStarted)
                send.Abandon();
            cancellation = exception;
        }

        if (send.ToException(cancellation) is { } failure)
            throw failure;
    }

    /// <summary>Lets the client go, which stays as it is. Dispose the buffer first.</summary>
    public void Dispose()
    {
        _isDisposed = true;
        _parts.Watch.Dispose();
    }
}
