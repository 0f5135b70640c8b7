using System.Diagnostics.CodeAnalysis;
using BatchKit;
using BatchKit.Diagnostics;
using BatchKit.RabbitMQ;
using BatchKit.Transports;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Sends a buffer's output over RabbitMQ, and receives frames from RabbitMQ.</summary>
/// <remarks>
/// Both directions of a buffer share one <see cref="RabbitMqOptions"/>, whose options name is the buffer's name, and one health check: <c>batchkit-rabbitmq</c>, or
/// <c>batchkit-rabbitmq-name</c> for a named buffer.
/// </remarks>
public static class RabbitMqBuilderExtensions
{
    private const string HealthCheckName = "batchkit-rabbitmq";

    /// <summary>Adds the route <see cref="LocalFirstRouter.RemoteRoute"/>: output for other nodes is sent over RabbitMQ.</summary>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned.</param>
    /// <param name="configure">Configures the options; null leaves the defaults.</param>
    /// <param name="partitions">The number of partitions of the route; see <see cref="OutputRoute"/>. All share one connection.</param>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="partitions"/> is outside its range.</exception>
    /// <exception cref="InvalidOperationException">The buffer already has a route of that name.</exception>
    public static BatchKitBuilder UseRabbitMq(this BatchKitBuilder builder, Action<RabbitMqOptions>? configure = null, int partitions = 1)
    {
        ArgumentNullException.ThrowIfNull(builder);
        AddShared(builder, configure);
        KeyedServices.Add(builder.Services, builder.Name, CreateTransport);
        return builder.AddRoute(LocalFirstRouter.RemoteRoute, services => KeyedServices.GetTransport<RabbitMqTransport>(services, builder.Services, builder.Name), partitions);
    }

    /// <inheritdoc cref="UseRabbitMq(BatchKitBuilder, Action{RabbitMqOptions}, int)"/>
    /// <remarks><inheritdoc cref="ReceiveFromRabbitMq(BatchKitBuilder, Func{IServiceProvider, IBatchTransport}, IConfiguration, Action{RabbitMqOptions})" path="/remarks"/></remarks>
    public static BatchKitBuilder UseRabbitMq(this BatchKitBuilder builder, IConfiguration section, Action<RabbitMqOptions>? configure = null, int partitions = 1)
    {
        AdapterServices.AddSection(builder, section, new RabbitMqOptionsValidator(), RabbitMqOptions.Read);
        return builder.UseRabbitMq(configure, partitions);
    }

    /// <summary>Adds the route <see cref="LocalFirstRouter.RemoteRoute"/>, on which each batch is sent as one message of the application's own, for consumers that know nothing of BatchKit.</summary>
    /// <remarks>
    /// <para>Messages are mandatory, and are sent one after another, each when the broker has confirmed the one before. A batch is refused alone when the delegate throws for it, when its message is too large for the broker, or when it reaches no
    /// queue, or its exchange does not exist, after <see cref="RabbitMqOptions.UnroutableGrace"/>. After any other failure it is sent again, before anything newer; consumers may then get it twice.</para>
    /// <para>Of the options, those of the connection, <see cref="RabbitMqOptions.Durable"/>, <see cref="RabbitMqOptions.PublishTimeout"/> and <see cref="RabbitMqOptions.UnroutableGrace"/> are used. BatchKit declares nothing.</para>
    /// </remarks>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned.</param>
    /// <param name="create">Creates the message from the batch. It may be called again for the same batch.</param>
    /// <param name="configure">Configures the options; null leaves the defaults.</param>
    /// <param name="partitions">The number of partitions of the route; see <see cref="OutputRoute"/>. All share one connection.</param>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="partitions"/> is outside its range.</exception>
    /// <exception cref="InvalidOperationException">The buffer already has a route of that name.</exception>
    public static BatchKitBuilder UseRabbitMq(this BatchKitBuilder builder, Func<MessageBatch, RabbitMqMessage> create, Action<RabbitMqOptions>? configure = null, int partitions = 1)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ArgumentNullException.ThrowIfNull(create);
        AddShared(builder, configure);
        builder.Services.AddKeyedSingleton(builder.Name, (services, _) => CreateSender(services, builder.Name));
        return builder.AddRoute(
            LocalFirstRouter.RemoteRoute,
            services =>
            {
                var sender = services.GetRequiredKeyedService<RabbitMqMessageSender>(builder.Name);
                return new SequentialTransport((batch, cancellationToken) =>
                    sender.SendAsync(batch.Handle, SequentialTransport.Create(batch.Handle, () => create(batch)), cancellationToken));
            },
            partitions);
    }

    /// <summary>Passes the messages for this node (<see cref="OutputBufferOptions.Node"/>) to a handler, in a scope of the services for each batch, from the host's start to its stop.</summary>
    /// <remarks>
    /// A batch contains the messages of one frame, which is one message of the broker. The senders are other BatchKit processes. A message keeps the header that its sender wrote: key, type, content type,
    /// reply-to, correlation data and properties are not changed. Headers and properties of the broker's own message are not passed on. The buffer's codec reads typed messages.
    /// </remarks>
    /// <typeparam name="THandler">The handler; it is registered as a scoped service unless the services have it.</typeparam>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned. It needs no route.</param>
    /// <param name="configure">Configures the options; null leaves the defaults.</param>
    /// <exception cref="InvalidOperationException">The buffer receives from RabbitMQ already.</exception>
    public static BatchKitBuilder ReceiveFromRabbitMq<[DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>(
        this BatchKitBuilder builder, Action<RabbitMqOptions>? configure = null)
        where THandler : class, IMessageHandler
    {
        ArgumentNullException.ThrowIfNull(builder);
        return builder.ReceiveFromRabbitMq(builder.AddHandler<THandler>(), configure);
    }

    /// <summary>Receives the frames for this node from RabbitMQ, and leases the node's number (<see cref="NodeNumber"/>), from the host's start to its stop.</summary>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned.</param>
    /// <param name="next">Returns the transport that gets the batches: the one to this node's connections, or your own.</param>
    /// <param name="configure">Configures the options; null leaves the defaults.</param>
    /// <exception cref="InvalidOperationException">The buffer receives from RabbitMQ already.</exception>
    public static BatchKitBuilder ReceiveFromRabbitMq(
        this BatchKitBuilder builder, Func<IServiceProvider, IBatchTransport> next, Action<RabbitMqOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ArgumentNullException.ThrowIfNull(next);
        AdapterServices.ThrowIfReceiving<RabbitMqReceiver>(builder, "RabbitMQ");
        AddShared(builder, configure);
        builder.LeaseNode();
        return AdapterServices.AddReceiver(builder, services => CreateReceiver(services, builder, next));
    }

    /// <inheritdoc cref="ReceiveFromRabbitMq(BatchKitBuilder, Func{IServiceProvider, IBatchTransport}, Action{RabbitMqOptions})"/>
    /// <remarks>
    /// The keys of the section are the names of <see cref="RabbitMqOptions"/>' properties; certificates and callbacks can't be in a section. It is read once, when the options are first needed; errors
    /// name it. <paramref name="configure"/> runs after that.
    /// </remarks>
    public static BatchKitBuilder ReceiveFromRabbitMq(
        this BatchKitBuilder builder, Func<IServiceProvider, IBatchTransport> next, IConfiguration section, Action<RabbitMqOptions>? configure = null)
    {
        AdapterServices.AddSection(builder, section, new RabbitMqOptionsValidator(), RabbitMqOptions.Read);
        return builder.ReceiveFromRabbitMq(next, configure);
    }

    private static void AddShared(BatchKitBuilder builder, Action<RabbitMqOptions>? configure)
    {
        var (name, services) = (builder.Name, builder.Services);
        OptionsRules.Add(services, name, new RabbitMqOptionsValidator(), configure);
        services.TryAddSingleton<RabbitMqGroupHold>();
        if (KeyedServices.Contain<HealthCheck>(services, name))
            return;
        services.AddKeyedSingleton(name, static (provider, key) =>
            new HealthCheck(provider.GetKeyedService<RabbitMqTransport>(key), provider.GetKeyedService<RabbitMqMessageSender>(key), provider.GetKeyedService<RabbitMqReceiver>(key)));
        builder.BeforeHostedServices(provider => CreateStart(
            provider.GetKeyedService<RabbitMqTransport>(name), provider.GetKeyedService<RabbitMqMessageSender>(name), provider.GetKeyedService<RabbitMqReceiver>(name)));
        AdapterServices.AddHealthCheck(builder, HealthCheckName, provider => provider.GetRequiredKeyedService<HealthCheck>(name));
    }

    // The handles that hosted services create contain the node's number, so it is leased before any of them starts.
    private static Func<CancellationToken, Task> CreateStart(RabbitMqTransport? transport, RabbitMqMessageSender? sender, RabbitMqReceiver? receiver) => async cancellationToken =>
    {
        if (transport is not null)
            await transport.StartAsync(cancellationToken).ConfigureAwait(false);
        if (sender is not null)
            await sender.StartAsync(cancellationToken).ConfigureAwait(false);
        if (receiver is not null)
            await receiver.LeaseAsync(cancellationToken).ConfigureAwait(false);
    };

    private static RabbitMqTransport CreateTransport(IServiceProvider services, string name)
    {
        var options = services.GetRequiredService<IOptionsMonitor<RabbitMqOptions>>().Get(name);
        var signer = services.GetRequiredKeyedService<BatchKitBuilder>(name).CreateSigner(services);
        return new RabbitMqTransport(
            options, services.GetService<TimeProvider>(), services.GetService<ILogger<RabbitMqTransport>>(), signer, services.GetKeyedService<ConnectionMetrics>(name))
        {
            GroupHold = services.GetRequiredService<RabbitMqGroupHold>(),
        };
    }

    private static RabbitMqMessageSender CreateSender(IServiceProvider services, string name) => new(
        services.GetRequiredService<IOptionsMonitor<RabbitMqOptions>>().Get(name), services.GetService<TimeProvider>() ?? TimeProvider.System,
        GuardedLogger.Of(services.GetService<ILogger<RabbitMqTransport>>()), services.GetKeyedService<ConnectionMetrics>(name));

    private static RabbitMqReceiver CreateReceiver(IServiceProvider services, BatchKitBuilder builder, Func<IServiceProvider, IBatchTransport> next)
    {
        var options = services.GetRequiredService<IOptionsMonitor<RabbitMqOptions>>().Get(builder.Name);
        var node = services.GetRequiredKeyedService<NodeNumber>(builder.Name);
        if (!options.DeclareTopology)
            RabbitMqNodeLease.ThrowIfNodeNotSet(services, builder.Name, $"{nameof(RabbitMqOptions)}.{nameof(RabbitMqOptions.DeclareTopology)}");
        var timeProvider = services.GetService<TimeProvider>();
        // Not the name of the node's queue: the number may not be leased yet, and each node's name would be a time series of its own.
        var receiver = builder.CreateReceiver(services, next, receiving => (receiving.MessagingSystem, receiving.QueueName) = ("rabbitmq", options.Prefix));
        var created = new RabbitMqReceiver(options, node, receiver, timeProvider, services.GetService<ILogger<RabbitMqReceiver>>(), services.GetKeyedService<ConnectionMetrics>(builder.Name));
        if (created.Groups is { } groups)
            services.GetRequiredService<RabbitMqGroupHold>().Add(groups);
        return created;
    }

    /// <summary>Reports whether the buffer's transport can send and its receiver receives; either may be absent.</summary>
    private sealed class HealthCheck(RabbitMqTransport? transport, RabbitMqMessageSender? sender, RabbitMqReceiver? receiver) : IHealthCheck
    {
        public async Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default)
        {
            var sending = transport is not null ? await transport.FindFaultAsync(cancellationToken).ConfigureAwait(false)
                : sender is not null ? await sender.FindFaultAsync(cancellationToken).ConfigureAwait(false)
                : null;
            var observers = transport?.LoggerFault ?? receiver?.LoggerFault ?? transport?.CallbackFault ?? sender?.CallbackFault ?? receiver?.CallbackFault;
            return AdapterServices.Evaluate(context, sending, receiver?.Fault, receiver?.GetStatistics(), observers);
        }
    }
}
