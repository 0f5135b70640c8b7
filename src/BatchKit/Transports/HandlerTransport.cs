using System.Collections.Immutable;
using BatchKit.Diagnostics;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace BatchKit.Transports;

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
