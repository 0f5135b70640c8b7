using System.Diagnostics.CodeAnalysis;
using System.Diagnostics.Metrics;
using BatchKit;
using BatchKit.Postgres;
using BatchKit.Postgres.Frames;
using BatchKit.Transports;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;
using Npgsql;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Sends a buffer's output to queues in PostgreSQL, receives from queues, and stores output in an outbox.</summary>
/// <remarks>
/// All methods use an <see cref="NpgsqlDataSource"/> from the services: the one whose key is the buffer's or the queue's name if it exists, else the one without a key. Options have the buffer's name;
/// a receiver's options have its queue's name. The health checks are <c>batchkit-postgres</c> or <c>batchkit-postgres-name</c> for a buffer's transport or outbox, and <c>batchkit-postgres-queue-name</c> for a receiver.
/// </remarks>
public static class PostgresBuilderExtensions
{
    private const string HealthCheckName = "batchkit-postgres";
    private const string QueueOwner = "the queue";

    /// <summary>Adds the route <see cref="LocalFirstRouter.RemoteRoute"/>: output goes to queues in PostgreSQL.</summary>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned.</param>
    /// <param name="configure">Configures the options; null leaves the defaults.</param>
    /// <param name="partitions">The number of partitions of the route; see <see cref="OutputRoute"/>.</param>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="partitions"/> is outside its range.</exception>
    /// <exception cref="InvalidOperationException">The buffer already has a route of that name.</exception>
    public static BatchKitBuilder UsePostgres(this BatchKitBuilder builder, Action<PostgresOptions>? configure = null, int partitions = 1)
    {
        ArgumentNullException.ThrowIfNull(builder);
        OptionsRules.Add(builder.Services, builder.Name, new PostgresOptionsValidator(), configure);
        KeyedServices.Add(builder.Services, builder.Name, (services, key) => new PostgresQueueTransport(
            DataSourceOf(services, key), OptionsOf<PostgresOptions>(services, key), services.GetService<TimeProvider>(), services.GetService<ILogger<PostgresQueueTransport>>(),
            builder.CreateSigner(services), services.GetKeyedService<ConnectionMetrics>(key)));
        KeyedServices.Add(builder.Services, builder.Name, static (services, key) => new PostgresQueueAdmin(DataSourceOf(services, key), OptionsOf<PostgresOptions>(services, key).Schema));
        // With FailFast the transport asks its server before anything is sent.
        builder.BeforeHostedServices(services => services.GetRequiredKeyedService<PostgresQueueTransport>(builder.Name).StartAsync);
        AdapterServices.AddHealthCheck(builder, HealthCheckName, provider => new HealthCheck(provider.GetRequiredKeyedService<PostgresQueueTransport>(builder.Name), outbox: null, receiver: null));
        return builder.AddRoute(LocalFirstRouter.RemoteRoute, services => KeyedServices.GetTransport<PostgresQueueTransport>(services, builder.Services, builder.Name), partitions);
    }

    /// <summary>Adds the route <see cref="LocalFirstRouter.RemoteRoute"/> with settings from configuration.</summary>
    /// <inheritdoc cref="UsePostgres(BatchKitBuilder, Action{PostgresOptions}, int)"/>
    /// <remarks>The keys of the section are the names of the options' properties. It is read once, when the options are first needed; errors name it.</remarks>
    public static BatchKitBuilder UsePostgres(this BatchKitBuilder builder, IConfiguration section, Action<PostgresOptions>? configure = null, int partitions = 1)
    {
        AdapterServices.AddSection(builder, section, new PostgresOptionsValidator(), static (from, options) => from.Bind(options));
        return builder.UsePostgres(configure, partitions);
    }

    /// <summary>Receives the frames of a queue (the sender's <see cref="PostgresOptions.FrameQueue"/>), and passes their batches to the next transport, in order and once, from the host's start to its stop.</summary>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned.</param>
    /// <param name="queue">The queue's name, which is also the options name of its <see cref="PostgresQueueReceiverOptions"/>. Here <see cref="PostgresQueueReceiverOptions.Shards"/> and <see cref="PostgresQueueReceiverOptions.Concurrency"/> are 1.</param>
    /// <param name="next">Returns the transport that gets the batches.</param>
    /// <param name="configure">Configures the options; null leaves the defaults.</param>
    /// <exception cref="InvalidOperationException">The services have a receiver of this queue already.</exception>
    public static BatchKitBuilder ReceiveFromPostgres(
        this BatchKitBuilder builder, string queue, Func<IServiceProvider, IBatchTransport> next, Action<PostgresQueueReceiverOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ArgumentNullException.ThrowIfNull(next);
        builder.Services.AddPostgresQueueReceiver(queue, services => CreateFrameHandler(services, builder, queue, next), options =>
        {
            options.Shards = 1;
            options.Concurrency = 1;
            // Burying a frame loses output, so failed frames are retried. Only a frame that can't be read is buried.
            options.Poison = PoisonPolicy.Block;
            configure?.Invoke(options);
        });
        return builder.AllowNoRoute();
    }

    /// <summary>Passes the messages of a queue to a handler, in a scope of the services for each batch, from the host's start to its stop. Call it once for each queue.</summary>
    /// <remarks>
    /// A handler that implements <see cref="IMessageHandler"/> gets messages like those of any broker. One that implements <c>IMessageHandler&lt;QueueMessage&gt;</c> also gets attempts and priorities, and may complete, retry or refuse each message. A
    /// refused message is moved to the dead table. Handlers run concurrently, for up to <see cref="PostgresQueueReceiverOptions.Concurrency"/> batches. The buffer's codec reads typed messages.
    /// </remarks>
    /// <typeparam name="THandler">The handler; it is registered as a scoped service unless the services have it.</typeparam>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned. It needs no route.</param>
    /// <param name="queue">The queue's name, which is also the options name of its <see cref="PostgresQueueReceiverOptions"/>.</param>
    /// <param name="configure">Configures the options; null leaves the defaults.</param>
    /// <exception cref="InvalidOperationException">The services have a receiver of this queue already.</exception>
    public static BatchKitBuilder ReceiveFromPostgres<[DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>(
        this BatchKitBuilder builder, string queue, Action<PostgresQueueReceiverOptions>? configure = null)
        where THandler : class, IMessageHandler<QueueMessage>
    {
        ArgumentNullException.ThrowIfNull(builder);
        builder.Services.TryAddScoped<THandler>();
        builder.Services.AddPostgresQueueReceiver(
            queue, services => CodecHandler.Create(new ScopedMessageHandler<THandler, QueueMessage>(services.GetRequiredService<IServiceScopeFactory>()), services.GetKeyedService<IMessageCodec>(builder.Name)), configure);
        return builder.AllowNoRoute();
    }

    /// <inheritdoc cref="ReceiveFromPostgres{THandler}(BatchKitBuilder, string, Action{PostgresQueueReceiverOptions})"/>
    /// <remarks>The keys of the section are the names of the options' properties. It is read once, when the options are first needed; errors name it.</remarks>
    public static BatchKitBuilder ReceiveFromPostgres<[DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>(
        this BatchKitBuilder builder, string queue, IConfiguration section, Action<PostgresQueueReceiverOptions>? configure = null)
        where THandler : class, IMessageHandler<QueueMessage>
    {
        ArgumentNullException.ThrowIfNull(builder);
        builder.ReceiveFromPostgres<THandler>(queue);
        AddReceiverOptions(builder.Services, queue, section, configure);
        return builder;
    }

    /// <inheritdoc cref="ReceiveFromPostgres(BatchKitBuilder, string, Func{IServiceProvider, IBatchTransport}, Action{PostgresQueueReceiverOptions})"/>
    /// <remarks>The keys of the section are the names of the options' properties. It is read once, when the options are first needed; errors name it.</remarks>
    public static BatchKitBuilder ReceiveFromPostgres(
        this BatchKitBuilder builder, string queue, Func<IServiceProvider, IBatchTransport> next, IConfiguration section, Action<PostgresQueueReceiverOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        builder.ReceiveFromPostgres(queue, next);
        AddReceiverOptions(builder.Services, queue, section, configure);
        return builder;
    }

    /// <summary>Adds the route <see cref="LocalFirstRouter.RemoteRoute"/>: output is stored in an outbox, which forwards it to another transport.</summary>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned.</param>
    /// <param name="inner">Creates the transport that the outbox forwards to; the services dispose it.</param>
    /// <param name="configure">Configures the options; null leaves the defaults.</param>
    /// <exception cref="InvalidOperationException">The buffer already has a route of that name.</exception>
    public static BatchKitBuilder UsePostgresOutbox(
        this BatchKitBuilder builder, Func<IServiceProvider, IBatchTransport> inner, Action<PostgresOutboxOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ArgumentNullException.ThrowIfNull(inner);
        var (name, services) = (builder.Name, builder.Services);
        OptionsRules.Add(services, name, new PostgresOutboxOptionsValidator(), configure);
        services.AddKeyedSingleton<IBatchTransport>(InnerKey(name), (provider, _) => inner(provider));
        KeyedServices.Add(services, name, static (provider, key) => new PostgresOutbox(DataSourceOf(provider, key), provider.GetRequiredKeyedService<IBatchTransport>(InnerKey(key)),
            OptionsOf<PostgresOutboxOptions>(provider, key), provider.GetService<TimeProvider>(), provider.GetService<ILogger<PostgresOutbox>>(),
            provider.GetKeyedService<ConnectionMetrics>(key), provider.GetService<IMeterFactory>()));
        services.AddSingleton<IHostedService>(provider => new HostedPart(provider.GetRequiredKeyedService<PostgresOutbox>(name), provider));
        AdapterServices.AddHealthCheck(builder, HealthCheckName, provider => new HealthCheck(transport: null, provider.GetRequiredKeyedService<PostgresOutbox>(name), receiver: null));
        return builder.AddRoute(LocalFirstRouter.RemoteRoute, provider => KeyedServices.GetTransport<PostgresOutbox>(provider, builder.Services, builder.Name));
    }

    /// <inheritdoc cref="UsePostgresOutbox(BatchKitBuilder, Func{IServiceProvider, IBatchTransport}, Action{PostgresOutboxOptions})"/>
    /// <remarks>The keys of the section are the names of the options' properties. It is read once, when the options are first needed; errors name it.</remarks>
    public static BatchKitBuilder UsePostgresOutbox(
        this BatchKitBuilder builder, Func<IServiceProvider, IBatchTransport> inner, IConfiguration section, Action<PostgresOutboxOptions>? configure = null)
    {
        AdapterServices.AddSection(builder, section, new PostgresOutboxOptionsValidator(), static (from, options) => from.Bind(options));
        return builder.UsePostgresOutbox(inner, configure);
    }

    /// <summary>Adds a receiver that passes a queue's messages to a handler that you create, from the host's start to its stop. Call it once for each queue.</summary>
    /// <param name="services">The services.</param>
    /// <param name="queue">The queue's name, which is also the options name of its <see cref="PostgresQueueReceiverOptions"/>.</param>
    /// <param name="handler">Returns the handler. One handler gets all batches, so it can't use scoped services. Resolve it from the services, so that they dispose it.</param>
    /// <param name="configure">Configures the options; null leaves the defaults.</param>
    /// <exception cref="InvalidOperationException">The services have a receiver of this queue already, or a health check of its name.</exception>
    public static IServiceCollection AddPostgresQueueReceiver(
        this IServiceCollection services, string queue, Func<IServiceProvider, IMessageHandler<QueueMessage>> handler, Action<PostgresQueueReceiverOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(services);
        ArgumentException.ThrowIfNullOrEmpty(queue);
        ArgumentNullException.ThrowIfNull(handler);
        if (KeyedServices.Contain<PostgresQueueReceiver>(services, queue))
            throw new InvalidOperationException($"The queue '{queue}' already has a receiver; raise its {nameof(PostgresQueueReceiverOptions.Concurrency)} instead.");
        OptionsRules.Add(services, queue, new PostgresQueueReceiverOptionsValidator(), options =>
        {
            options.Queue = queue;
            configure?.Invoke(options);
        }, owner: QueueOwner);
        // A queue belongs to no buffer, so all queues share one instance.
        services.TryAddSingleton(static provider => new ConnectionMetrics(provider.GetService<IMeterFactory>(), bufferName: null, provider.GetService<TimeProvider>()));
        services.AddKeyedSingleton(queue, (provider, key) => new PostgresQueueReceiver(
            DataSourceOf(provider, queue), OptionsOf<PostgresQueueReceiverOptions>(provider, key), handler(provider), provider.GetService<TimeProvider>(), provider.GetService<ILogger<PostgresQueueReceiver>>(),
            provider.GetService<ConnectionMetrics>(), provider.GetService<IMeterFactory>()));
        services.AddSingleton<IHostedService>(provider => new HostedPart(provider.GetRequiredKeyedService<PostgresQueueReceiver>(queue), provider));
        AdapterServices.AddHealthCheck(services, $"{HealthCheckName}-queue-{queue}", $"{QueueOwner} '{queue}'", provider => new HealthCheck(transport: null, outbox: null, provider.GetRequiredKeyedService<PostgresQueueReceiver>(queue)));
        return services;
    }

    /// <inheritdoc cref="AddPostgresQueueReceiver(IServiceCollection, string, Func{IServiceProvider, IMessageHandler{QueueMessage}}, Action{PostgresQueueReceiverOptions})"/>
    /// <remarks>The keys of the section are the names of the options' properties. It is read once, when the options are first needed; errors name it.</remarks>
    public static IServiceCollection AddPostgresQueueReceiver(
        this IServiceCollection services, string queue, Func<IServiceProvider, IMessageHandler<QueueMessage>> handler, IConfiguration section, Action<PostgresQueueReceiverOptions>? configure = null)
    {
        services.AddPostgresQueueReceiver(queue, handler);
        AddReceiverOptions(services, queue, section, configure);
        return services;
    }

    // Registered after the settings that the method makes itself, so that the section can change them.
    private static void AddReceiverOptions(IServiceCollection services, string queue, IConfiguration section, Action<PostgresQueueReceiverOptions>? configure)
    {
        ArgumentNullException.ThrowIfNull(section);
        OptionsRules.Add(services, queue, new PostgresQueueReceiverOptionsValidator(), configure, section, static (from, options) => from.Bind(options), QueueOwner);
    }

    private static TOptions OptionsOf<[DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicParameterlessConstructor)] TOptions>(IServiceProvider services, object? name) =>
        services.GetRequiredService<IOptionsMonitor<TOptions>>().Get((string)name!);

    private static NpgsqlDataSource DataSourceOf(IServiceProvider services, string name) =>
        services.GetKeyedService<NpgsqlDataSource>(name) ?? services.GetService<NpgsqlDataSource>()
        ?? throw new InvalidOperationException(
            $"The services have no {nameof(NpgsqlDataSource)}: add one, as with AddSingleton({nameof(NpgsqlDataSource)}.{nameof(NpgsqlDataSource.Create)}(connectionString)), or one with the key '{name}'.");

    private static string InnerKey(string name) => $"{HealthCheckName}-outbox-{name}";

    private static FrameHandler CreateFrameHandler(IServiceProvider services, BatchKitBuilder builder, string queue, Func<IServiceProvider, IBatchTransport> next)
    {
        var receiver = builder.CreateReceiver(services, next, options => (options.MessagingSystem, options.QueueName) = ("postgresql", queue));
        return new FrameHandler(receiver, services.GetService<TimeProvider>(), services.GetService<ILogger<PostgresQueueReceiver>>());
    }

    /// <summary>Gives each message the codec that reads it, and passes the batch on.</summary>
    private sealed class CodecHandler(IMessageHandler<QueueMessage> next, IMessageCodec codec) : IMessageHandler<QueueMessage>
    {
        public static IMessageHandler<QueueMessage> Create(IMessageHandler<QueueMessage> next, IMessageCodec? codec) => codec is null ? next : new CodecHandler(next, codec);

        public ValueTask HandleAsync(IReadOnlyList<QueueMessage> batch, CancellationToken cancellationToken)
        {
            for (var index = 0; index < batch.Count; index++)
                batch[index].UseCodec(codec);
            return next.HandleAsync(batch, cancellationToken);
        }
    }

    /// <summary>Reports whether a transport or an outbox can send, or a receiver receives; the others are null.</summary>
    private sealed class HealthCheck(PostgresQueueTransport? transport, PostgresOutbox? outbox, PostgresQueueReceiver? receiver) : IHealthCheck
    {
        public async Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default)
        {
            if (receiver is { IsPaused: true, Fault: null })
                return HealthCheckResult.Healthy("The receiver is paused: it claims nothing until it is resumed.");
            var sending = transport is null ? outbox?.Fault : await transport.FindFaultAsync(cancellationToken).ConfigureAwait(false);
            var degradation = transport?.Degradation ?? outbox?.Degradation ?? receiver?.Degradation;
            return BrokerHealth.Evaluate(context.Registration.FailureStatus, sending, receiver?.Fault, receiver?.GetStatistics().ConsecutiveFailures ?? 0, degradation);
        }
    }
}
