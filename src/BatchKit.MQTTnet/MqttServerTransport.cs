using System.Collections.Immutable;
using System.Runtime.InteropServices;
using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using MQTTnet;
using MQTTnet.Packets;
using MQTTnet.Server;
using MQTTnet.Server.Internal;

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
    // MQTT 5, section 2.4.
    private const int LeastRefusal = 0x80;

    // How long the application's handlers have for a message after a cancellation. Well below the half second after which dispatch abandons a send: it would not learn what was injected, and send that again.
    private static readonly TimeSpan HandlersPatience = TimeSpan.FromMilliseconds(200);

    private readonly MqttServer _server;
    private readonly MqttServerTransportOptions _options;
    private readonly TimeProvider _timeProvider;
    private readonly PublishSettings _settings;
    private readonly DropCounter _drops;
    private readonly SubscriberCapacity _subscribers;

    // Held by one send at a time, from the query of the capacity until it is used; and by one query, because a handler may send without awaiting it.
    private readonly SemaphoreSlim _free = new(1, 1);
    private readonly SemaphoreSlim _waiting = new(1, 1);

    // Set in the flow of a send, and thus in the handlers of the server for which it waits. What a handler sends is part of that turn: if it waited for its own turn, neither would end.
    private readonly AsyncLocal<Turn?> _turn = new();

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
        OptionsRules.ThrowIfInvalid(new MqttServerTransportOptionsValidator(), _options);
        _server = server;
        _timeProvider = timeProvider ?? TimeProvider.System;
        _settings = new PublishSettings(_options.QualityOfService, _options.Retain, _options.Expiry);
        _drops = new DropCounter(server);
        _subscribers = new SubscriberCapacity(server, _options, _drops, _timeProvider, GuardedLogger.Of(logger));
    }

    /// <summary>The counts so far.</summary>
    public MqttServerTransportStatistics GetStatistics() => new(Interlocked.Read(ref _injectedMessages), _drops.DroppedMessages, _subscribers.SlowSubscribers);

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
        if (!_server.IsStarted)
            throw new IOException("The application's MQTT server is not started: call its StartAsync, because BatchKit does not start it.");
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
                fault ??= await InjectAsync(batch, turn, cancellationToken).ConfigureAwait(false);
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
    /// Calls and sends take turns. A handler of the server may call it: that is part of the turn for which the server calls the handler.
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
        if (!_server.IsStarted)
            throw new IOException("The application's MQTT server is not started: call its StartAsync, because BatchKit does not start it.");
        var results = new PublishManyResults(messages.Length);
        var outer = _turn.Value is { IsOver: false } held ? held : null;
        if (outer is null)
            await _free.WaitAsync(cancellationToken).ConfigureAwait(false);
        var turn = _turn.Value = outer ?? new Turn();
        try
        {
            var droppedBefore = _drops.DroppedMessages;
            for (var index = 0; index < messages.Length; index++)
            {
                cancellationToken.ThrowIfCancellationRequested();
                if (MessageTexts.FindFault(messages.Span[index], allowsAlias: false, _options.AllowSystemTopics) is { } fault)
                {
                    results.Refuse(index, fault);
                    continue;
                }

                if (--turn.Capacity < 0)
                    await WaitAsync(turn, cancellationToken).ConfigureAwait(false);
                await InjectAsync(messages.Span[index], index, results, cancellationToken).ConfigureAwait(false);
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

    private async ValueTask WaitAsync(Turn turn, CancellationToken cancellationToken)
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
    private async ValueTask<string?> InjectAsync(MessageBatch batch, Turn turn, CancellationToken cancellationToken)
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
                await WaitAsync(turn, cancellationToken).ConfigureAwait(false);
            var start = index == 0 ? 0 : batch.MessageEnds[index - 1];
            var properties = PublishSettings.HasProperties(header) ? new(header!.Properties.Length) : default(List<MqttUserProperty>);
            var message = _settings.CreateMessage(batch.Handle.Name!, payload[start..batch.MessageEnds[index]], header, properties);
            var messageFault = await InjectAsync(message, cancellationToken).ConfigureAwait(false);
            fault ??= messageFault;
        }

        return fault;
    }

    // Returns why the message was refused; null when it was not.
    private async ValueTask<string?> InjectAsync(MqttApplicationMessage message, CancellationToken cancellationToken)
    {
        Task? injecting = null;
        try
        {
            injecting = StartInjecting(message);
            await WaitAsync(injecting, cancellationToken).ConfigureAwait(false);
            return Count(injecting);
        }
        catch (Exception exception) when (injecting is null or { IsFaulted: true } or { IsCanceled: true } && _server.IsStarted)
        {
            return $"The application's MQTT server failed with {exception.GetType().Name}: {FailureText.MessageOf(exception)}";
        }
    }

    private ValueTask InjectAsync(MqttApplicationMessage message, int index, PublishManyResults results, CancellationToken cancellationToken)
    {
        try
        {
            var injecting = StartInjecting(message);
            if (!injecting.IsCompletedSuccessfully)
                return InjectSlowAsync(injecting, index, results, cancellationToken);
            Answer(injecting, index, results);
        }
        catch (Exception exception)
        {
            Fail(exception, index, results);
        }

        return default;
    }

    private async ValueTask InjectSlowAsync(Task injecting, int index, PublishManyResults results, CancellationToken cancellationToken)
    {
        try
        {
            await WaitAsync(injecting, cancellationToken).ConfigureAwait(false);
            Answer(injecting, index, results);
        }
        catch (Exception exception) when (injecting.IsCompleted)
        {
            Fail(exception, index, results);
        }
    }

    // The server waits for handlers of the application. After a cancellation a slow one has some time, so that nothing overtakes its message; the message of one that hangs is left to it, because it would hold up all others.
    private async ValueTask WaitAsync(Task injecting, CancellationToken cancellationToken)
    {
        try
        {
            await injecting.WaitAsync(cancellationToken).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (cancellationToken.IsCancellationRequested)
        {
            await Task.WhenAny(injecting, Task.Delay(HandlersPatience, _timeProvider, CancellationToken.None)).ConfigureAwait(false);
            if (!injecting.IsCompleted)
            {
                _ = injecting.ContinueWith(static late => late.Exception, TaskScheduler.Default);
                throw;
            }

            await injecting.ConfigureAwait(false);
        }
    }

    // Never cancelled: a cancelled call may have queued the message for some subscribers only.
    private Task StartInjecting(MqttApplicationMessage message) =>
        _server.InjectApplicationMessage(new InjectedMqttApplicationMessage(message) { SenderClientId = _options.SenderClientId }, CancellationToken.None);

    private void Answer(Task injected, int index, PublishManyResults results)
    {
        if (ResultOf(injected) is { } result)
            results.Answer(index, (MqttClientPublishReasonCode)result.ReasonCode, result.ReasonString);
        if (!IsRefused(ResultOf(injected)))
            Interlocked.Increment(ref _injectedMessages);
    }

    // Returns why the application has refused the message; null when it has not.
    private string? Count(Task injected)
    {
        var result = ResultOf(injected);
        if (!IsRefused(result))
        {
            Interlocked.Increment(ref _injectedMessages);
            return null;
        }

        // Not tried again: the handler that refuses it is the application's, and what is before it in its batch would be injected twice.
        return $"The server answered {(MqttClientPublishReasonCode)result!.ReasonCode} ({result.ReasonCode}){(string.IsNullOrEmpty(result.ReasonString) ? "" : $": {result.ReasonString}")}.";
    }

    // The server declares a plain task, but the task's result contains the reason code, which an intercepting handler may set.
    private static DispatchApplicationMessageResult? ResultOf(Task injected) => injected is Task<DispatchApplicationMessageResult> { Result: { } result } ? result : null;

    private static bool IsRefused(DispatchApplicationMessageResult? result) => result?.ReasonCode >= LeastRefusal;

    // A handler of the application has thrown, or the server has stopped.
    private static void Fail(Exception exception, int index, PublishManyResults results) =>
        results.Fail(index, new PublishManyResult(PublishManyOutcome.Failed, Reason: FailureText.MessageOf(exception), Error: exception));

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
