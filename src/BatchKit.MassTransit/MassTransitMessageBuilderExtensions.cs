using BatchKit;
using BatchKit.MassTransit;
using BatchKit.Transports;
using MassTransit;
using Microsoft.Extensions.DependencyInjection.Extensions;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Sends a buffer's output as the application's own messages over its own bus, so that consumers stay as they are; and consumes such messages with BatchKit's handlers.</summary>
public static class MassTransitMessageBuilderExtensions
{
    /// <summary>Sends each batch as one of the application's own messages over the bus that <c>AddMassTransit</c> registered.</summary>
    /// <remarks>
    /// <para>A message is published, or sent with <see cref="MassTransitMessageOptions.SendTo"/>, in a scope of the services of its own: with the bus's serializer, topology, filters and outbox. Messages are sent one after another, each when
    /// the one before is confirmed. BatchKit does not start, stop or configure the bus. Call <c>AddMassTransit</c> before <c>AddBatchKit</c>, so that the bus stops after the buffer has drained.</para>
    /// <para>A batch is refused alone when a delegate (not <see cref="MassTransitMessageOptions.Complete"/>) or the serializer throws for it, or a filter throws <see cref="MessageRefusedException"/>. After any other failure it is sent again, before anything newer; consumers may then get it twice.
    /// A buffering scope is one batch up to <see cref="OutputBufferOptions.MaxBatchBytes"/> and <see cref="OutputBufferOptions.MaxBatchMessages"/>.</para>
    /// </remarks>
    /// <typeparam name="TMessage">The application's message.</typeparam>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned.</param>
    /// <param name="create">Creates the message from the batch. Copy the batch's bytes: they are valid until the message is sent. It may be called again for the same batch.</param>
    /// <param name="configure">Changes the settings; null leaves the defaults.</param>
    /// <param name="partitions">The number of partitions of the route; see <see cref="OutputRoute"/>.</param>
    /// <returns>The builder.</returns>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="partitions"/> is outside its range.</exception>
    /// <exception cref="InvalidOperationException">The buffer already has a route of that name, or MassTransit takes no messages of that type.</exception>
    public static BatchKitBuilder UseMassTransit<TMessage>(
        this BatchKitBuilder builder, Func<MessageBatch, TMessage> create, Action<MassTransitMessageOptions>? configure = null, int partitions = 1)
        where TMessage : class =>
        AddBatches(builder, BusAccess.Default, create, configure, partitions);

    /// <summary>Sends each message as one of the application's own messages over the bus that <c>AddMassTransit</c> registered.</summary>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned.</param>
    /// <param name="create">Creates the message. Copy the payload's bytes: they are valid until the message is sent.</param>
    /// <param name="configure">Changes the settings; null leaves the defaults.</param>
    /// <param name="partitions">The number of partitions of the route; see <see cref="OutputRoute"/>.</param>
    /// <inheritdoc cref="UseMassTransit{TMessage}(BatchKitBuilder, Func{MessageBatch, TMessage}, Action{MassTransitMessageOptions}, int)"/>
    public static BatchKitBuilder UseMassTransit<TMessage>(
        this BatchKitBuilder builder, Func<OutputHandle, BatchMessage, TMessage> create, Action<MassTransitMessageOptions>? configure = null, int partitions = 1)
        where TMessage : class =>
        AddMessages(builder, BusAccess.Default, create, configure, partitions);

    /// <summary>Sends each batch as one of the application's own messages over one of its several buses.</summary>
    /// <typeparam name="TBus">The interface of the bus, as in <c>AddMassTransit&lt;TBus&gt;</c>.</typeparam>
    /// <typeparam name="TMessage">The application's message.</typeparam>
    /// <inheritdoc cref="UseMassTransit{TMessage}(BatchKitBuilder, Func{MessageBatch, TMessage}, Action{MassTransitMessageOptions}, int)"/>
    public static BatchKitBuilder UseMassTransit<TBus, TMessage>(
        this BatchKitBuilder builder, Func<MessageBatch, TMessage> create, Action<MassTransitMessageOptions>? configure = null, int partitions = 1)
        where TBus : class, IBus
        where TMessage : class =>
        AddBatches(builder, BusAccess.To<TBus>(), create, configure, partitions);

    /// <summary>Sends each message as one of the application's own messages over one of its several buses.</summary>
    /// <typeparam name="TBus">The interface of the bus, as in <c>AddMassTransit&lt;TBus&gt;</c>.</typeparam>
    /// <typeparam name="TMessage">The application's message.</typeparam>
    /// <inheritdoc cref="UseMassTransit{TMessage}(BatchKitBuilder, Func{OutputHandle, BatchMessage, TMessage}, Action{MassTransitMessageOptions}, int)"/>
    public static BatchKitBuilder UseMassTransit<TBus, TMessage>(
        this BatchKitBuilder builder, Func<OutputHandle, BatchMessage, TMessage> create, Action<MassTransitMessageOptions>? configure = null, int partitions = 1)
        where TBus : class, IBus
        where TMessage : class =>
        AddMessages(builder, BusAccess.To<TBus>(), create, configure, partitions);

    /// <summary>Adds a consumer that passes each message to a BatchKit handler. The handler is registered as a scoped service unless the services have it.</summary>
    /// <typeparam name="TMessage">The application's message.</typeparam>
    /// <typeparam name="THandler">The handler, which may be the handler of a BatchKit receiver too.</typeparam>
    /// <param name="setup">What <c>AddMassTransit</c> configures.</param>
    /// <param name="read">Returns what the handler gets: <c>message => new ReceivedMessage(OutputHandle.Connection(message.Handle), message.Bytes)</c>, for example.</param>
    /// <returns>The consumer's registration, which configures its endpoint.</returns>
    /// <exception cref="InvalidOperationException">MassTransit takes no messages of that type.</exception>
    public static IConsumerRegistrationConfigurator<HandlerConsumer<TMessage, THandler>> AddMessageHandler<TMessage, THandler>(
        this IBusRegistrationConfigurator setup, Func<TMessage, ReceivedMessage> read)
        where TMessage : class
        where THandler : class, IMessageHandler
    {
        ArgumentNullException.ThrowIfNull(setup);
        ArgumentNullException.ThrowIfNull(read);
        ThrowIfNoMessage<TMessage>();
        setup.TryAddScoped<THandler>();
        setup.AddSingleton(new MessageReader<TMessage, THandler>(read));
        return setup.AddConsumer<HandlerConsumer<TMessage, THandler>>();
    }

    private static BatchKitBuilder AddBatches<TMessage>(
        BatchKitBuilder builder, BusAccess bus, Func<MessageBatch, TMessage> create, Action<MassTransitMessageOptions>? configure, int partitions)
        where TMessage : class
    {
        ArgumentNullException.ThrowIfNull(create);
        return Add<TMessage>(builder, bus, configure, partitions, sender => new SequentialTransport((batch, cancellationToken) =>
            sender.SendAsync(batch.Handle, SequentialTransport.Create(batch.Handle, () => create(batch)), cancellationToken)));
    }

    private static BatchKitBuilder AddMessages<TMessage>(
        BatchKitBuilder builder, BusAccess bus, Func<OutputHandle, BatchMessage, TMessage> create, Action<MassTransitMessageOptions>? configure, int partitions)
        where TMessage : class
    {
        ArgumentNullException.ThrowIfNull(create);
        return Add<TMessage>(builder, bus, configure, partitions, sender => new MessageDispatcher((handle, message, cancellationToken) =>
            sender.SendAsync(handle, SequentialTransport.Create(handle, () => create(handle, message)), cancellationToken)));
    }

    private static BatchKitBuilder Add<TMessage>(
        BatchKitBuilder builder, BusAccess bus, Action<MassTransitMessageOptions>? configure, int partitions, Func<BusMessageSender<TMessage>, IBatchTransport> wrap)
        where TMessage : class
    {
        ArgumentNullException.ThrowIfNull(builder);
        ThrowIfNoMessage<TMessage>();
        return builder.AddRoute(LocalFirstRouter.RemoteRoute, Create, partitions);

        IBatchTransport Create(IServiceProvider services)
        {
            var options = new MassTransitMessageOptions();
            configure?.Invoke(options);
            OptionsRules.ThrowIfInvalid(new MassTransitMessageOptionsValidator(), options, builder.Name);
            SendGuardObserver.Connect(bus.FindBus(services));
            return wrap(new BusMessageSender<TMessage>(
                services.GetRequiredService<IServiceScopeFactory>(), bus.FindEndpoints, options, services.GetService<TimeProvider>() ?? TimeProvider.System));
        }
    }

    // MassTransit throws at each publish of such a type, which would be a failed send for minutes, and its consumers get nothing.
    private static void ThrowIfNoMessage<TMessage>()
        where TMessage : class
    {
        if (!MessageTypeCache<TMessage>.IsValidMessageType)
            throw new InvalidOperationException($"MassTransit takes no messages of the type {typeof(TMessage)}: {MessageTypeCache<TMessage>.InvalidMessageTypeReason}");
    }
}
