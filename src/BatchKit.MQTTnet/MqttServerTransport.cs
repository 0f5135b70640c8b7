using System.Collections.Immutable;
using System.Runtime.InteropServices;
using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using MQTTnet.Packets;
using MQTTnet.Server;

namespace BatchKit.MQTTnet;

/// <summary>Injects batches into the MQTTnet server of an application: a handle is a topic. Messages are injected only as fast as connected subscribers read them.</summary>
/// <remarks>
/// By default the server queues at most 1000 messages for each client and then drops the oldest silently. This transport watches the queues of connected clients and
/// waits for capacity, at most <see cref="MqttServerTransportOptions.SlowSubscriberTimeout"/> for all of them together, so that a subscriber that reads loses nothing; messages
/// dropped for others are counted and logged. It does not wait for sessions whose client is not connected. The server keeps references to payloads and lists for an
/// unlimited time, so the transport copies each batch into new memory that is never pooled. The application owns the server. Control messages are not injected.
/// Concurrent sends take turns. Thread-safe.
/// </remarks>
public sealed class MqttServerTransport : IBatchTransport, IDisposable
{
    private readonly MqttServer _server;
    private readonly MqttServerTransportOptions _options;
    private readonly PublishSettings _settings;
    private readonly DropCounter _drops;
    private readonly SubscriberCapacity _subscribers;

    // Held by one send at a time, from the query of the capacity until it is used.
    private readonly SemaphoreSlim _turn = new(1, 1);

    private long _injectedMessages;
    private volatile bool _isDisposed;

    /// <summary>Creates a transport.</summary>
    /// <param name="server">The application's server, started or not.</param>
    /// <param name="options">The settings; the defaults when null.</param>
    /// <param name="timeProvider">The source of time; the system's clock when null.</param>
    /// <param name="logger">The logger; null logs nothing.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public MqttServerTransport(MqttServer server, MqttServerTransportOptions? options = null, TimeProvider? timeProvider = null, ILogger<MqttServerTransport>? logger = null)
    {
        ArgumentNullException.ThrowIfNull(server);
        _options = options?.Copy() ?? new MqttServerTransportOptions();
        MqttServerTransportOptionsValidator.ThrowIfInvalid(_options);
        _server = server;
        _settings = new PublishSettings(_options.QualityOfService, _options.Retain, _options.Expiry);
        _drops = new DropCounter(server);
        _subscribers = new SubscriberCapacity(server, _options, _drops, timeProvider ?? TimeProvider.System, GuardedLogger.Of(logger));
    }

    /// <summary>The counts so far.</summary>
    public MqttServerTransportStatistics GetStatistics() => new(Interlocked.Read(ref _injectedMessages), _drops.DroppedMessages, _subscribers.SlowSubscribers);

    /// <summary>Injects the batches. Completes when the server has queued all messages for its subscribers.</summary>
    /// <remarks>After a cancellation, a batch that was injected in part is injected again as a whole.</remarks>
    /// <inheritdoc cref="IBatchTransport.SendAsync"/>
    /// <exception cref="IOException">The server is not started.</exception>
    /// <exception cref="ObjectDisposedException">The transport is disposed.</exception>
    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        cancellationToken.ThrowIfCancellationRequested();
        if (!_server.IsStarted)
            throw new IOException("The application's MQTT server is not started.");
        var outcomes = new BatchOutcome[batches.Length];
        string? refusal = null;
        Exception? error = null;
        await _turn.WaitAsync(cancellationToken).ConfigureAwait(false);
        try
        {
            var capacity = 0;
            for (var index = 0; index < outcomes.Length; index++)
            {
                var batch = batches.Span[index];
                var fault = MessageTexts.FindFault(batch.Handle, _options.AllowSystemTopics);
                if (fault is null)
                    (capacity, fault) = await InjectAsync(batch, capacity, cancellationToken).ConfigureAwait(false);
                refusal ??= fault;
                outcomes[index] = fault is null ? BatchOutcome.Acknowledged : BatchOutcome.Refused;
            }
        }
        catch (Exception exception)
        {
            error = exception;
        }
        finally
        {
            _turn.Release();
        }

        ThrowIfIncomplete(outcomes, refusal, error);
    }

    /// <summary>Detaches from the server without disposing it. Dispose the buffer first.</summary>
    public void Dispose()
    {
        _isDisposed = true;
        _drops.Dispose();
    }

    private static void ThrowIfIncomplete(BatchOutcome[] outcomes, string? refusal, Exception? error)
    {
        if (Array.TrueForAll(outcomes, static outcome => outcome == BatchOutcome.Acknowledged))
            return;
        if (!Array.TrueForAll(outcomes, static outcome => outcome == BatchOutcome.Unacknowledged))
            throw new BatchSendException(ImmutableCollectionsMarshal.AsImmutableArray(outcomes), refusal ?? error?.Message ?? "Not every batch was injected.", error);
        if (error is OperationCanceledException)
            throw error;
        throw new IOException($"The MQTT server accepted no message: {error?.Message}", error);
    }

    // Returns the capacity that is left, and why a message was refused; null when none was. The other messages are injected.
    private async ValueTask<(int Capacity, string? Fault)> InjectAsync(MessageBatch batch, int capacity, CancellationToken cancellationToken)
    {
        string? fault = null;
        ReadOnlyMemory<byte> payload = batch.Payload.ToArray();
        for (var index = 0; index < batch.Count; index++)
        {
            var header = batch.HasHeaders ? batch.Headers[index] : null;
            if (PublishSettings.IsControl(header))
                continue;
            if (MessageTexts.FindFault(header) is { } headersFault)
            {
                fault ??= headersFault;
                continue;
            }

            if (capacity == 0)
                capacity = await _subscribers.WaitAsync(cancellationToken).ConfigureAwait(false);
            capacity--;
            var start = index == 0 ? 0 : batch.MessageEnds[index - 1];
            var properties = PublishSettings.HasProperties(header) ? new(header!.Properties.Length) : default(List<MqttUserProperty>);
            var message = _settings.CreateMessage(batch.Handle.Name!, payload[start..batch.MessageEnds[index]], header, properties);
            // Never cancelled: a cancelled call may have queued the message for some subscribers only.
            await _server.InjectApplicationMessage(
                new InjectedMqttApplicationMessage(message) { SenderClientId = _options.SenderClientId }, CancellationToken.None).ConfigureAwait(false);
            Interlocked.Increment(ref _injectedMessages);
        }

        return (capacity, fault);
    }
}

/// <summary>The counts of a <see cref="MqttServerTransport"/> so far.</summary>
/// <param name="InjectedMessages">Messages that the server accepted.</param>
/// <param name="DroppedMessages">
/// Messages that the server dropped because a subscriber's queue was full, counted once for each such subscriber; messages of other publishers are included.
/// </param>
/// <param name="SlowSubscribers">Connected subscribers for which sends do not wait now.</param>
public readonly record struct MqttServerTransportStatistics(long InjectedMessages, long DroppedMessages, int SlowSubscribers);
