using System.Collections.Immutable;
using System.Diagnostics.CodeAnalysis;
using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace BatchKit;

/// <summary>Handles received messages, whichever broker they come from. Register it with an adapter's <c>ReceiveFromX</c> method.</summary>
/// <inheritdoc cref="IMessageHandler{TMessage}" path="/remarks"/>
public interface IMessageHandler : IMessageHandler<ReceivedMessage>;

/// <summary>Handles received messages of one broker's own type, such as <c>IMessageHandler&lt;QueueMessage&gt;</c> for a queue in PostgreSQL. To handle the messages of any broker, implement <see cref="IMessageHandler"/>.</summary>
/// <remarks>
/// <para>For each batch the receiver creates a scope of the services, resolves the handler from it, calls it once, and disposes the scope. So a handler may use scoped services, such as a <c>DbContext</c>.</para>
/// <para>When the task completes, the receiver acknowledges to the broker the messages that the handler did not refuse. No message of the batch is handled again. When the handler throws, it gets
/// each message again in a batch of its own, so that one bad message does not fail the others. The receiver retries a message that fails alone after a pause, and refuses it at a limit: in a queue of
/// PostgreSQL after a number of attempts, elsewhere after <see cref="BatchReceiverOptions.DeliveryTimeout"/>. A handler may also get a message again after the process or a connection has ended.</para>
/// </remarks>
/// <typeparam name="TMessage">The type of the messages.</typeparam>
public interface IMessageHandler<in TMessage>
    where TMessage : ReceivedMessage
{
    /// <summary>Handles a batch of messages.</summary>
    /// <param name="batch">At least one message, in order. The messages and their memory are valid until the task has ended.</param>
    /// <param name="cancellationToken">Cancelled when the receiver stops and no longer waits, or when its lease on the messages has ended.</param>
    ValueTask HandleAsync(IReadOnlyList<TMessage> batch, CancellationToken cancellationToken);
}

/// <summary>A message that a receiver took off a broker.</summary>
/// <remarks>Valid until the task of its handler has ended: copy what you need after that. Not thread-safe. Tests of a handler may create messages.</remarks>
public class ReceivedMessage
{
    /// <summary>Creates a message.</summary>
    /// <param name="handle">The handle that it was sent to.</param>
    /// <param name="payload">Its bytes.</param>
    /// <param name="header">What it carries besides its bytes; null for nothing.</param>
    /// <param name="codec">Decodes it for <see cref="Read"/> and <see cref="TryRead"/>; null when the handler reads bytes only.</param>
    public ReceivedMessage(OutputHandle handle, ReadOnlyMemory<byte> payload, MessageHeader? header = null, IMessageCodec? codec = null)
    {
        Handle = handle;
        Payload = payload;
        Header = header;
        Codec = codec;
    }

    /// <summary>Where it was sent to: a named handle, with the name of the MQTT topic, the queue or the group, or a connection.</summary>
    public OutputHandle Handle { get; private set; }

    /// <summary>Its bytes.</summary>
    public ReadOnlyMemory<byte> Payload { get; private set; }

    /// <summary>What it carries besides its bytes, as far as the broker transmits it: kind, key, type, content type, reply-to, correlation data, retain flag and properties; null for a plain message.</summary>
    public MessageHeader? Header { get; private set; }

    /// <summary>The key of its header; null when it has none.</summary>
    public virtual string? Key => Header?.Key;

    /// <summary>Why the handler refused it; null when it did not.</summary>
    public string? RefusalReason { get; protected set; }

    /// <summary>Decodes it; null when there is none.</summary>
    protected IMessageCodec? Codec { get; set; }

    /// <summary>Reads the message as a <typeparamref name="T"/>, whatever its <see cref="MessageHeader.Type"/>.</summary>
    /// <typeparam name="T">A type that the buffer's codec knows.</typeparam>
    /// <exception cref="MessageRefusedException">The bytes are not a <typeparamref name="T"/>; the message is refused. When the handler lets the exception out, it gets the other messages again.</exception>
    /// <exception cref="InvalidOperationException">No codec is registered.</exception>
    public T Read<T>()
    {
        var codec = GetCodec();
        try
        {
            return codec.Decode<T>(Payload.Span);
        }
        catch (Exception exception)
        {
            var reason = $"A message of {Payload.Length} bytes for {Handle} can't be decoded as {typeof(T).Name}.";
            Refuse(reason);
            throw new MessageRefusedException(reason, exception);
        }
    }

    /// <summary>Reads the message as a <typeparamref name="T"/> if it is one. A message without a <see cref="MessageHeader.Type"/>, as other programs send it, may be any type.</summary>
    /// <typeparam name="T">A type that the buffer's codec knows.</typeparam>
    /// <param name="value">The value; the type's default when the result is false.</param>
    /// <returns>False when its type is another one, or its bytes are not a <typeparamref name="T"/>. In the second case it is refused too.</returns>
    /// <exception cref="InvalidOperationException">No codec is registered.</exception>
    public bool TryRead<T>([MaybeNullWhen(false)] out T value)
    {
        value = default;
        if (Header?.Type is { } type && type != GetCodec().GetHeader<T>().Type)
            return false;
        try
        {
            value = Read<T>();
            return true;
        }
        catch (MessageRefusedException)
        {
            return false;
        }
    }

    /// <summary>Refuses the message: it is not handled again. The receiver counts and logs it; the other messages of the batch are acknowledged.</summary>
    /// <param name="reason">A human-readable reason.</param>
    public virtual void Refuse(string reason)
    {
        ArgumentNullException.ThrowIfNull(reason);
        RefusalReason = reason;
    }

    /// <summary>Uses the object for another message.</summary>
    internal void Assign(OutputHandle handle, BatchMessage message, IMessageCodec? codec)
    {
        (Handle, Payload, Header) = (handle, message.Payload, message.Header);
        Codec = codec;
        RefusalReason = null;
    }

    private IMessageCodec GetCodec() => Codec ?? throw new InvalidOperationException(
        $"No codec is registered to read typed messages with. Call {nameof(BatchKitBuilder.UseJson)} or {nameof(BatchKitBuilder.UseCodec)} on what AddBatchKit returned.");
}

/// <summary>Creates a handler in a scope of the services for each batch, and disposes the scope afterwards. Thread-safe.</summary>
/// <typeparam name="THandler">The handler, which the services know.</typeparam>
/// <typeparam name="TMessage">The type of its messages.</typeparam>
/// <param name="scopes">Creates the scopes.</param>
public sealed class ScopedMessageHandler<THandler, TMessage>(IServiceScopeFactory scopes) : IMessageHandler<TMessage>
    where THandler : class, IMessageHandler<TMessage>
    where TMessage : ReceivedMessage
{
    /// <inheritdoc/>
    public async ValueTask HandleAsync(IReadOnlyList<TMessage> batch, CancellationToken cancellationToken)
    {
        var scope = scopes.CreateAsyncScope();
        await using (scope.ConfigureAwait(false))
            await scope.ServiceProvider.GetRequiredService<THandler>().HandleAsync(batch, cancellationToken).ConfigureAwait(false);
    }
}

/// <summary>Passes the batches of a send to a handler: the next hop of a receiver whose messages are handled in this process.</summary>
/// <remarks>
/// The messages of all batches of a send are one batch for the handler. When the handler throws, it gets each message alone. The send then fails at the first message that fails alone; the next send of these batches continues with that message. A
/// message is refused when the handler calls <see cref="ReceivedMessage.Refuse"/>, or throws <see cref="MessageRefusedException"/> for the message alone. Sends may overlap if the handler is thread-safe.
/// </remarks>
public sealed class HandlerTransport : IBatchTransport
{
    // As many batches as a send has by default.
    private const int MaxKept = 4096;

    private readonly IMessageHandler<ReceivedMessage> _handler;
    private readonly IMessageCodec? _codec;
    private readonly MessageDispatcher _alone;
    private readonly LogThrottle _throttle;
    private readonly GuardedLogger _logger;

    // Null while a send uses it, so that a send that overlaps gets its own.
    private ReceivedMessage[]? _spare = [];

    /// <summary>Creates a transport.</summary>
    /// <param name="handler">Gets the messages.</param>
    /// <param name="codec">Decodes typed messages; null when the handler reads bytes only.</param>
    /// <param name="timeProvider">The clock; the system's when null.</param>
    /// <param name="logger">Gets a warning when the handler fails; null for no log.</param>
    public HandlerTransport(IMessageHandler<ReceivedMessage> handler, IMessageCodec? codec = null, TimeProvider? timeProvider = null, ILogger<HandlerTransport>? logger = null)
    {
        ArgumentNullException.ThrowIfNull(handler);
        _handler = handler;
        _codec = codec;
        _alone = new MessageDispatcher(HandleAloneAsync);
        _throttle = new LogThrottle(timeProvider ?? TimeProvider.System);
        _logger = GuardedLogger.Of(logger);
    }

    /// <inheritdoc/>
    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        var count = CountMessages(batches.Span);
        if (count == 1 || _alone.HasFailed(batches.Span) || !await TryHandleAsync(batches, count, cancellationToken).ConfigureAwait(false))
            await _alone.SendAsync(batches, cancellationToken).ConfigureAwait(false);
    }

    private static int CountMessages(ReadOnlySpan<MessageBatch> batches)
    {
        var count = 0;
        foreach (var batch in batches)
            count += batch.Count - FirstOf(batch);
        return count;
    }

    private static int FirstOf(MessageBatch batch) => batch is ReceivedBatch received ? received.FirstMessage : 0;

    /// <returns>False when the handler failed.</returns>
    /// <exception cref="BatchSendException">The handler refused messages, and handled the others.</exception>
    private async ValueTask<bool> TryHandleAsync(ReadOnlyMemory<MessageBatch> batches, int count, CancellationToken cancellationToken)
    {
        var messages = Fill(batches.Span, count);
        try
        {
            if (!await TryHandleAsync(new ArraySegment<ReceivedMessage>(messages, 0, count), cancellationToken).ConfigureAwait(false))
                return false;
            ThrowIfRefused(batches.Span, messages);
            return true;
        }
        finally
        {
            Keep(messages, count);
        }
    }

    private async ValueTask<bool> TryHandleAsync(ArraySegment<ReceivedMessage> messages, CancellationToken cancellationToken)
    {
        try
        {
            await _handler.HandleAsync(messages, cancellationToken).ConfigureAwait(false);
            return true;
        }
        catch (Exception exception) when (!cancellationToken.IsCancellationRequested)
        {
            _logger.HandlerFailed(_throttle, messages.Count, exception);
            return false;
        }
    }

    private async ValueTask HandleAloneAsync(OutputHandle handle, BatchMessage message, CancellationToken cancellationToken)
    {
        var received = new ReceivedMessage(handle, message.Payload, message.Header, _codec);
        await _handler.HandleAsync([received], cancellationToken).ConfigureAwait(false);
        if (received.RefusalReason is { } reason)
            throw new MessageRefusedException(reason);
    }

    private ReceivedMessage[] Fill(ReadOnlySpan<MessageBatch> batches, int count)
    {
        var messages = Interlocked.Exchange(ref _spare, null) ?? [];
        if (messages.Length < count)
            Array.Resize(ref messages, Math.Max(count, Math.Min(2 * messages.Length, MaxKept)));
        var next = 0;
        foreach (var batch in batches)
        {
            for (var index = FirstOf(batch); index < batch.Count; index++)
                (messages[next++] ??= new ReceivedMessage(default, default)).Assign(batch.Handle, batch[index], _codec);
        }

        return messages;
    }

    private static void ThrowIfRefused(ReadOnlySpan<MessageBatch> batches, ReceivedMessage[] messages)
    {
        ImmutableArray<MessageRefusal>.Builder? refused = null;
        string? firstReason = null;
        var next = 0;
        for (var batch = 0; batch < batches.Length; batch++)
        {
            for (var index = FirstOf(batches[batch]); index < batches[batch].Count; index++)
            {
                if (messages[next++].RefusalReason is not { } reason)
                    continue;
                firstReason ??= reason;
                (refused ??= ImmutableArray.CreateBuilder<MessageRefusal>()).Add(new MessageRefusal(batch, index));
            }
        }

        if (refused is null)
            return;
        var outcomes = new BatchOutcome[batches.Length];
        outcomes.AsSpan().Fill(BatchOutcome.Acknowledged);
        throw new BatchSendException([.. outcomes], $"The handler refused {refused.Count} of {next} messages. {firstReason}", refusedMessages: refused.ToImmutable());
    }

    // Messages that are kept for the next send keep no memory of this one.
    private void Keep(ReceivedMessage[] messages, int count)
    {
        foreach (var message in messages.AsSpan(0, count))
            message.Assign(default, default, codec: null);
        if (messages.Length <= MaxKept)
            _spare = messages;
    }
}
