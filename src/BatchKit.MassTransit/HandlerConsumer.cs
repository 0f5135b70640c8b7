using MassTransit;

namespace BatchKit.MassTransit;

/// <summary>Consumes the application's own messages with a BatchKit handler.</summary>
/// <remarks>
/// A message that the handler refuses, by <see cref="ReceivedMessage.Refuse"/> or <see cref="MessageRefusedException"/>, fails with a <see cref="MessageRefusedException"/>: MassTransit's retry and error queue apply, as for any consumer.
/// </remarks>
/// <typeparam name="TMessage">The application's message.</typeparam>
/// <typeparam name="THandler">The handler, from the consumer's scope.</typeparam>
/// <param name="handler">The handler.</param>
/// <param name="reader">Reads the application's messages.</param>
public sealed class HandlerConsumer<TMessage, THandler>(THandler handler, MessageReader<TMessage, THandler> reader) : IConsumer<TMessage>
    where TMessage : class
    where THandler : class, IMessageHandler
{
    /// <inheritdoc/>
    public async Task Consume(ConsumeContext<TMessage> context)
    {
        ArgumentNullException.ThrowIfNull(context);
        var received = reader.Read(context.Message) ?? throw new MessageRefusedException($"The delegate that reads a {typeof(TMessage)} returned null.");
        await handler.HandleAsync([received], context.CancellationToken).ConfigureAwait(false);
        if (received.RefusalReason is { } reason)
            throw new MessageRefusedException(reason);
    }
}

/// <summary>Reads the application's own messages for a <see cref="HandlerConsumer{TMessage, THandler}"/>.</summary>
/// <typeparam name="TMessage">The application's message.</typeparam>
/// <typeparam name="THandler">The handler that it is read for.</typeparam>
/// <param name="Read">Returns what the handler gets.</param>
public sealed record MessageReader<TMessage, THandler>(Func<TMessage, ReceivedMessage> Read);
