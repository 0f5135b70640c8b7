using System.Collections.Immutable;
using System.Runtime.InteropServices;
using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using MQTTnet;
using MQTTnet.Packets;
using MQTTnet.Server;

namespace BatchKit.MQTTnet;

/// <summary>Injects batches into the MQTTnet server of an application: a handle is a topic. Messages are injected only as fast as connected subscribers read them.</summary>
/// <remarks>
/// By default the server queues at most 1000 messages for each client and then silently drops the oldest. This transport watches the queues of connected clients and
/// waits for capacity, at most <see cref="MqttServerTransportOptions.SlowSubscriberTimeout"/> for all of them together. So a subscriber that reads a quarter of its queue within that time loses nothing. Messages
/// dropped for others are counted and logged. The transport does not wait for sessions whose client is not connected. The server keeps references to payloads and lists for an
/// unlimited time, so the transport copies each batch into new memory that is never pooled. The application owns the server. Control messages are not injected.
/// Concurrent sends take turns. Thread-safe.
/// </remarks>
public sealed class MqttServerTransport : IBatchTransport, IDisposable
{
    private readonly MqttServer _server;
    private readonly MqttServerTransportOptions _options;
    private readonly PublishSettings _settings;
    private readonly MessageInjector _injector;
    private readonly DropCounter _drops;
    private readonly SubscriberCapacity _subscribers;

    // Held by one send at a time, from the query of the capacity until it is used; and by one query, because a handler may send without awaiting it.
    private readonly SemaphoreSlim _free = new(1, 1);
    private readonly SemaphoreSlim _waiting = new(1, 1);

    // Set in the flow of a send, and thus in the handlers of the server for which it waits. What a handler sends is part of that turn: if it waited for its own turn, neither would end.
    private readonly AsyncLocal<Turn?> _turn = new();

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
        OptionsRules.ThrowIfInvalid(new MqttServerTransportOptionsValidator(), _options);
        _server = server;
        timeProvider ??= TimeProvider.System;
        _injector = new MessageInjector(server, _options.SenderClientId, timeProvider);
        _settings = new PublishSettings(_options.QualityOfService, _options.Retain, _options.Expiry);
        _drops = new DropCounter(server);
        _subscribers = new SubscriberCapacity(server, _options, _drops, timeProvider, GuardedLogger.Of(logger));
    }

    /// <summary>The counts so far.</summary>
    public MqttServerTransportStatistics GetStatistics() => new(_injector.InjectedMessages, _drops.DroppedMessages, _subscribers.SlowSubscribers);

    /// <summary>Injects the batches. Completes when the server has queued all messages for its subscribers.</summary>
    /// <remarks>
    /// After a cancellation, a batch that was injected in part is injected again as a whole. A handler of the server, such as <c>InterceptingPublishAsync</c>, that keeps a message for longer than 200 ms
    /// after that fails its batch alone.
    /// </remarks>
    /// <inheritdoc cref="IBatchTransport.SendAsync"/>
    /// <exception cref="IOException">The server is not started.</exception>
    /// <exception cref="ObjectDisposedException">The transport is disposed.</exception>
    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        cancellationToken.ThrowIfCancellationRequested();
        ThrowIfNotStarted();
        var outcomes = new BatchOutcome[batches.Length];
        string? refusal = null;
        Exception? error = null;
        var outer = _turn.Value is { IsOver: false } held ? held : null;
        if (outer is null)
            await _free.WaitAsync(cancellationToken).ConfigureAwait(false);
        var turn = _turn.Value = outer ?? new Turn();
        try
        {
            for (var index = 0; index < outcomes.Length; index++)
            {
                var batch = batches.Span[index];
                var fault = MessageTexts.FindFault(batch.Handle, _options.AllowSystemTopics);
                fault ??= await InjectBatchAsync(batch, turn, cancellationToken).ConfigureAwait(false);
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
            if (outer is null)
                EndTurn(turn);
        }

        ThrowIfIncomplete(outcomes, refusal, error);
    }

    /// <summary>Injects MQTTnet's own messages in their order, as fast as connected subscribers read them, and completes when each has its result.</summary>
    /// <remarks>
    /// Each message has its own QoS (0, 1 or 2), retain flag and properties; the transport's settings for these do not apply. A message that is refused, because of its text or by the
    /// server's <c>InterceptingPublishAsync</c>, does not stop the others. A message that no one subscribes to succeeds with the reason code <c>NoMatchingSubscribers</c>.
    /// Calls and sends take turns. A handler of the server may call it: that is part of the turn for which the server calls the handler. A message that a handler keeps for longer than 10 s is <c>Failed</c> and
    /// injected when that handler ends; after that the handlers have 200 ms for each message of the call.
    /// </remarks>
    /// <param name="messages">
    /// The messages. The server keeps references to them, to their payloads and to their lists for an unlimited time: never change them after the call.
    /// </param>
    /// <param name="cancellationToken">
    /// Prevents further messages from being injected. A message is injected whole or not at all; one that a handler of the server keeps for longer than 200 ms after the cancellation is injected when that handler ends.
    /// </param>
    /// <returns>The results in the order of the messages, and the number of messages that the server dropped meanwhile.</returns>
    /// <exception cref="ArgumentException">A message is null; nothing is injected.</exception>
    /// <exception cref="IOException">The server is not started; nothing is injected.</exception>
    /// <exception cref="ObjectDisposedException">The transport is disposed.</exception>
    /// <exception cref="OperationCanceledException">The call was cancelled; the first messages may be injected.</exception>
    public async ValueTask<InjectManyReport> InjectManyAsync(ReadOnlyMemory<MqttApplicationMessage> messages, CancellationToken cancellationToken = default)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        MessageTexts.ThrowIfAnyIsNull(messages.Span);
        cancellationToken.ThrowIfCancellationRequested();
        if (messages.IsEmpty)
            return default;
        ThrowIfNotStarted();
        var results = new PublishManyResults(messages.Length);
        var outer = _turn.Value is { IsOver: false } held ? held : null;
        if (outer is null)
            await _free.WaitAsync(cancellationToken).ConfigureAwait(false);
        var turn = _turn.Value = outer ?? new Turn();
        try
        {
            var droppedBefore = _drops.DroppedMessages;
            var limit = MessageInjector.HandlerLimit;
            for (var index = 0; index < messages.Length; index++)
            {
                cancellationToken.ThrowIfCancellationRequested();
                if (MessageTexts.FindFault(messages.Span[index], allowsAlias: false, _options.AllowSystemTopics) is { } fault)
                {
                    results.Refuse(index, fault);
                    continue;
                }

                if (--turn.Capacity < 0)
                    await WaitForCapacityAsync(turn, cancellationToken).ConfigureAwait(false);
                if (!await _injector.InjectAndRecordAsync(messages.Span[index], index, results, limit, cancellationToken).ConfigureAwait(false))
                    limit = MessageInjector.HandlerPatience;
            }

            return new InjectManyReport(results.ToReport(), _drops.DroppedMessages - droppedBefore);
        }
        finally
        {
            if (outer is null)
                EndTurn(turn);
        }
    }

    /// <summary>Detaches from the server without disposing it. Dispose the buffer first.</summary>
    public void Dispose()
    {
        _isDisposed = true;
        _drops.Dispose();
    }

    private void ThrowIfNotStarted()
    {
        if (!_server.IsStarted)
            throw new IOException("The application's MQTT server is not started: call its StartAsync, because BatchKit does not start it.");
    }

    private static void ThrowIfIncomplete(BatchOutcome[] outcomes, string? refusal, Exception? error)
    {
        if (Array.TrueForAll(outcomes, static outcome => outcome == BatchOutcome.Acknowledged))
            return;
        if (!Array.TrueForAll(outcomes, static outcome => outcome == BatchOutcome.Unacknowledged))
            throw new BatchSendException(ImmutableCollectionsMarshal.AsImmutableArray(outcomes), refusal ?? (error is null ? "Not every batch was injected." : FailureText.MessageOf(error)), error);
        if (error is OperationCanceledException)
            throw error;
        throw new IOException($"The MQTT server accepted no message: {(error is null ? null : FailureText.MessageOf(error))}", error);
    }

    private void EndTurn(Turn turn)
    {
        turn.IsOver = true;
        _free.Release();
    }

    private async ValueTask WaitForCapacityAsync(Turn turn, CancellationToken cancellationToken)
    {
        await _waiting.WaitAsync(cancellationToken).ConfigureAwait(false);
        try
        {
            turn.Capacity = await _subscribers.WaitAsync(cancellationToken).ConfigureAwait(false) - 1;
        }
        finally
        {
            _waiting.Release();
        }
    }

    // Returns why a message was refused; null when none was. The other messages are injected.
    private async ValueTask<string?> InjectBatchAsync(MessageBatch batch, Turn turn, CancellationToken cancellationToken)
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

            if (--turn.Capacity < 0)
                await WaitForCapacityAsync(turn, cancellationToken).ConfigureAwait(false);
            var start = index == 0 ? 0 : batch.MessageEnds[index - 1];
            var properties = PublishSettings.HasProperties(header) ? new(header!.Properties.Length) : default(List<MqttUserProperty>);
            var message = _settings.CreateMessage(batch.Handle.Name!, payload[start..batch.MessageEnds[index]], header, properties);
            var messageFault = await _injector.InjectAndFindRefusalAsync(message, cancellationToken).ConfigureAwait(false);
            fault ??= messageFault;
        }

        return fault;
    }

    private sealed class Turn
    {
        public int Capacity;
        public volatile bool IsOver;
    }
}

/// <summary>The counts of a <see cref="MqttServerTransport"/> so far.</summary>
/// <param name="InjectedMessages">Messages that the server accepted.</param>
/// <param name="DroppedMessages">
/// Messages that the server dropped because a subscriber's queue was full, counted once for each such subscriber; messages of other publishers are included.
/// </param>
/// <param name="SlowSubscribers">Connected subscribers for which sends do not wait now.</param>
public readonly record struct MqttServerTransportStatistics(long InjectedMessages, long DroppedMessages, int SlowSubscribers);
