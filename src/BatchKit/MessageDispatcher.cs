using System.Collections.Immutable;
using BatchKit.Diagnostics;
using BatchKit.Transports;

namespace BatchKit;

/// <summary>Calls the handler of each message's type: the next hop of a receiver of typed messages.</summary>
/// <remarks>
/// <para>Messages are handled one after another, in their order. The send completes, and so acknowledges the batches, when their handlers have completed.</para>
/// <para>The dispatcher refuses a message, and the previous hop counts and logs it, when the message has no type, when no handler takes its type, when its
/// payload can't be decoded, or when its handler throws <see cref="MessageRefusedException"/>. The messages around it are handled.</para>
/// <para>Any other exception of a handler ends the send. The previous hop sends the batch again, and the dispatcher continues with the message that
/// failed: those before it are not handled again, as long as the dispatcher exists and no more than 1,024 other batches have failed since. A
/// <see cref="BatchReceiver"/> refuses the message whose handler fails for longer than <see cref="BatchReceiverOptions.DeliveryTimeout"/>, and the messages behind it are handled. A buffer
/// that sends to a dispatcher in its own process gives up the whole batch.</para>
/// <para>Register all handlers before the first send. Sends may overlap where several receivers use one dispatcher.</para>
/// </remarks>
public sealed class MessageDispatcher : IBatchTransport
{
    private const int MaxPositions = 1024;

    private readonly IMessageCodec? _codec;
    private readonly Func<OutputHandle, BatchMessage, CancellationToken, ValueTask>? _handleAll;
    private readonly Dictionary<string, Func<OutputHandle, ReadOnlyMemory<byte>, CancellationToken, ValueTask>> _handlers = new(StringComparer.Ordinal);

    // Guards the positions at which failed batches resume. Some batches are never sent again, so the oldest entry is removed at the limit.
    private readonly Lock _lock = new();
    private readonly OrderedDictionary<BatchKey, Position> _positions = [];

    /// <summary>Creates a dispatcher without handlers.</summary>
    /// <param name="codec">Decodes the messages and names their types.</param>
    public MessageDispatcher(IMessageCodec codec)
    {
        ArgumentNullException.ThrowIfNull(codec);
        _codec = codec;
    }

    /// <summary>Creates a dispatcher with one handler for the messages of all types, and of none.</summary>
    /// <param name="handleAll">Gets each message with its handle, and a token that is cancelled when the send is cancelled. The payload is valid until its task has ended.</param>
    public MessageDispatcher(Func<OutputHandle, BatchMessage, CancellationToken, ValueTask> handleAll)
    {
        ArgumentNullException.ThrowIfNull(handleAll);
        _handleAll = handleAll;
    }

    /// <summary>Registers the handler of a type.</summary>
    /// <typeparam name="T">The type that was given to <see cref="TypedOutput.Write{T}(OutputHandle, T, MessageHeader?)"/>.</typeparam>
    /// <param name="handler">Gets the message's handle and value, and a token that is cancelled when the send is cancelled.</param>
    /// <returns>This dispatcher.</returns>
    /// <exception cref="InvalidOperationException">The type, or another one with the same name, has a handler; or the dispatcher has one handler for all types.</exception>
    /// <exception cref="NotSupportedException">The codec does not know the type.</exception>
    public MessageDispatcher On<T>(Func<OutputHandle, T, CancellationToken, ValueTask> handler)
    {
        ArgumentNullException.ThrowIfNull(handler);
        if (_codec is null)
            throw new InvalidOperationException("This dispatcher has one handler for the messages of all types. Create it with a codec to register a handler of a type.");
        var name = _codec.GetHeader<T>().Type ?? throw new InvalidOperationException($"The codec's header for {typeof(T)} has no {nameof(MessageHeader.Type)}. Set it in the codec's GetHeader.");
        if (!_handlers.TryAdd(name, (handle, payload, cancellationToken) => handler(handle, Decode<T>(name, payload.Span), cancellationToken)))
            throw new InvalidOperationException($"Messages of type '{name}' already have a handler. Call On once for each type.");
        return this;
    }

    /// <inheritdoc/>
    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        List<Refusal>? refusals = null;
        for (var batch = 0; batch < batches.Length; batch++)
        {
            var sent = batches.Span[batch];
            for (var message = Resume(sent, batch, ref refusals); message < sent.Count; message++)
            {
                try
                {
                    cancellationToken.ThrowIfCancellationRequested();
                    var (payload, header) = sent[message];
                    if (_handleAll is not null)
                        await _handleAll(sent.Handle, sent[message], cancellationToken).ConfigureAwait(false);
                    else if (header?.Type is { } type && _handlers.TryGetValue(type, out var handler))
                        await handler(sent.Handle, payload, cancellationToken).ConfigureAwait(false);
                    else
                        (refusals ??= []).Add(new Refusal(new MessageRefusal(batch, message), NoHandler(sent.Handle, header?.Type)));
                }
                catch (MessageRefusedException refused)
                {
                    (refusals ??= []).Add(new Refusal(new MessageRefusal(batch, message), refused));
                }
                catch (Exception failure)
                {
                    Remember(sent, batch, message, refusals);

                    // A handler that sends batches of its own may throw their outcomes, which say nothing about these.
                    if (batch == 0 && failure is not BatchSendException)
                        throw;
                    throw Fail(batches.Length, batch, refusals, failure);
                }
            }
        }

        if (refusals is not null)
            throw Fail(batches.Length, batches.Length, refusals, refusals[0].Reason);
    }

    /// <summary>True when a message of one of the batches failed, and the batch has not been sent again since.</summary>
    internal bool HasFailed(ReadOnlySpan<MessageBatch> batches)
    {
        lock (_lock)
        {
            if (_positions.Count == 0)
                return false;
            foreach (var batch in batches)
            {
                if (_positions.ContainsKey(new BatchKey(batch.Producer, batch.Number, batch.Handle)))
                    return true;
            }

            return false;
        }
    }

    // Not thrown: a sender whose types are all unknown would cost an exception's stack trace for each message.
    private static MessageRefusedException NoHandler(OutputHandle handle, string? type) => new(
        type is null ? $"A message for {handle} has no type. Write it by TypedOutput, or set MessageHeader.Type." : $"A message for {handle} has the type '{type}', which has no handler. Call On for that type.");

    private T Decode<T>(string name, ReadOnlySpan<byte> payload)
    {
        try
        {
            return _codec!.Decode<T>(payload);
        }
        catch (Exception exception)
        {
            throw new MessageRefusedException($"A message of type '{name}' with {payload.Length} bytes can't be decoded. Sender and receiver must use the same codec and the same type of that name.", exception);
        }
    }

    private int Resume(MessageBatch sent, int batch, ref List<Refusal>? refusals)
    {
        var first = sent is ReceivedBatch received ? received.FirstMessage : 0;
        Position? position;
        lock (_lock)
        {
            if (_positions.Count == 0 || !_positions.Remove(new BatchKey(sent.Producer, sent.Number, sent.Handle), out position))
                return first;
        }

        foreach (var (message, reason) in position.Refusals)
            (refusals ??= []).Add(new Refusal(new MessageRefusal(batch, message.Message), reason));
        return Math.Max(position.Next, first);
    }

    private void Remember(MessageBatch sent, int batch, int message, List<Refusal>? refusals)
    {
        if (sent is ReceivedBatch received)
            received.FailedMessage = message;

        // Without a producer a number does not identify a batch.
        if (sent.Producer == default)
            return;
        var position = new Position(message, [.. (refusals ?? []).Where(refusal => refusal.Message.Batch == batch)]);
        lock (_lock)
        {
            if (_positions.Count == MaxPositions)
                _positions.RemoveAt(0);
            _positions[new BatchKey(sent.Producer, sent.Number, sent.Handle)] = position;
        }
    }

    private static BatchSendException Fail(int batches, int acknowledged, List<Refusal>? refusals, Exception cause)
    {
        var outcomes = new BatchOutcome[batches];
        outcomes.AsSpan(0, acknowledged).Fill(BatchOutcome.Acknowledged);
        var refused = (refusals ?? []).Where(refusal => refusal.Message.Batch < acknowledged).Select(refusal => refusal.Message).ToImmutableArray();
        return new BatchSendException(
            [.. outcomes], $"{acknowledged} of {batches} batches were handled, and {refused.Length} of their messages were refused. {FailureText.MessageOf(cause)}", cause, refused);
    }

    private readonly record struct Refusal(MessageRefusal Message, MessageRefusedException Reason);

    /// <summary>The message of a failed batch that is handled next, and the messages before it that were refused.</summary>
    private sealed record Position(int Next, ImmutableArray<Refusal> Refusals);

    private readonly record struct BatchKey(ProducerId Producer, long Number, OutputHandle Handle);
}

/// <summary>A handler of a <see cref="MessageDispatcher"/> throws it to refuse its message. The message is not sent again; others are handled.</summary>
/// <param name="message">A human-readable reason. The previous hop logs it.</param>
/// <param name="innerException">The cause, if there is one.</param>
public sealed class MessageRefusedException(string message, Exception? innerException = null) : Exception(message, innerException);
