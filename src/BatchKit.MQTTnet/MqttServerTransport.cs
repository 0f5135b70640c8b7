using System.Collections.Immutable;
using System.Runtime.InteropServices;
using BatchKit.Transports;
using MQTTnet.Packets;
using MQTTnet.Server;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.MQTTnet;

/// <summary>Injects batches into the MQTTnet server of an application: a handle is a topic, and messages go in only as fast as connected subscribers read them.</summary>
/// <remarks>
/// The server keeps at most 1000 messages for each client by default and then drops the oldest in silence. This transport looks at the queues of connected clients and waits for room,
/// for each at most <see cref="MqttServerTransportOptions.SlowSubscriberTimeout"/>, so that nothing is lost to a subscriber that reads; what is dropped for the others is counted and logged. Sessions
/// whose client is away are not waited for. The server keeps references to payloads and lists for as long as it likes, so each batch's bytes are copied into memory of their own, which goes
/// back to no pool. The server stays the application's. Control messages are left out. Sends made side by side take turns.
/// </remarks>
public sealed class MqttServerTransport : IBatchTransport, IDisposable
{
    private readonly MqttServer _server;
    private readonly MqttServerTransportOptions _options;
    private readonly PublishSettings _settings;
    private readonly DropCounter _drops;
    private readonly SubscriberCapacity _room;

    // Held by the send whose turn it is, from asking for room to the last message that goes into it.
    private readonly SemaphoreSlim _turn = new(1, 1);

    private long _injectedMessages;
    private volatile bool _isDisposed;

    /// <summary>Makes a transport.</summary>
    /// <param name="server">The application's server, started or not.</param>
    /// <param name="options">Its settings; the defaults when null.</param>
    /// <param name="timeProvider">The time; the system's when null.</param>
    /// <param name="logger">Where it logs; nowhere when null.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public MqttServerTransport(MqttServer server, MqttServerTransportOptions? options = null, TimeProvider? timeProvider = null, ILogger<MqttServerTransport>? logger = null)
    {
        ArgumentNullException.ThrowIfNull(server);
        _options = options ?? new MqttServerTransportOptions();
        MqttServerTransportOptionsValidator.ThrowIfInvalid(_options);
        _server = server;
        _settings = new PublishSettings(_options.QualityOfService, _options.Retain, _options.Expiry);
        _drops = new DropCounter(server);
        _room = new SubscriberCapacity(server, _options, _drops, timeProvider ?? TimeProvider.System, logger ?? NullLogger<MqttServerTransport>.Instance);
    }

    /// <summary>What it has done so far.</summary>
    public MqttServerTransportStatistics GetStatistics() => new(Interlocked.Read(ref _injectedMessages), _drops.DroppedMessages, _room.SlowSubscribers);

    /// <summary>Injects the batches, and completes when the server has all messages in its subscribers' queues.</summary>
    /// <remarks>After a cancellation, a batch of which the server has a part is sent again whole.</remarks>
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
            var room = 0;
            for (var index = 0; index < outcomes.Length; index++)
            {
                var batch = batches.Span[index];
                var fault = TopicNames.FindFault(batch.Handle, _options.AllowSystemTopics);
                refusal ??= fault;
                if (fault is null)
                    room = await InjectAsync(batch, room, cancellationToken).ConfigureAwait(false);
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

    /// <summary>Lets the server go, which stays as it is. Dispose the buffer first.</summary>
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
        throw new IOException($"The MQTT server took no message: {error?.Message}", error);
    }

    // Returns what is left of the room.
    private async ValueTask<int> InjectAsync(MessageBatch batch, int room, CancellationToken cancellationToken)
    {
        ReadOnlyMemory<byte> payload = batch.Payload.ToArray();
        for (var index = 0; index < batch.Count; index++)
        {
            var header = batch.HasHeaders ? batch.Headers[index] : null;
            if (PublishSettings.IsControl(header))
                continue;
            if (room == 0)
                room = await _room.WaitAsync(cancellationToken).ConfigureAwait(false);
            room--;
            var start = index == 0 ? 0 : batch.MessageEnds[index - 1];
            var properties = PublishSettings.HasProperties(header) ? new(header!.Properties.Length) : default(List<MqttUserProperty>);
            var message = _settings.Make(batch.Handle.Name!, payload[start..batch.MessageEnds[index]], header, properties);
            // Never cancelled in the middle of a message, which some subscribers would have and others not.
            await _server.InjectApplicationMessage(
                new InjectedMqttApplicationMessage(message) { SenderClientId = _options.SenderClientId }, CancellationToken.None).ConfigureAwait(false);
            Interlocked.Increment(ref _injectedMessages);
        }

        return room;
    }
}

/// <summary>What a <see cref="MqttServerTransport"/> has done so far.</summary>
/// <param name="InjectedMessages">Messages that the server took.</param>
/// <param name="DroppedMessages">Messages that the server had no room for in a subscriber's queue, once for each such subscriber; those of its other publishers included.</param>
/// <param name="SlowSubscribers">Connected subscribers that are not waited for now.</param>
public readonly record struct MqttServerTransportStatistics(long InjectedMessages, long DroppedMessages, int SlowSubscribers);
