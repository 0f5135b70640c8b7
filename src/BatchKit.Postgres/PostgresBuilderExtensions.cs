using System.Diagnostics.CodeAnalysis;
using BatchKit;
using BatchKit.Postgres;
using BatchKit.Postgres.Frames;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;
using Npgsql;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Sends a buffer's output to queues in PostgreSQL, receives from there, and stores output in an outbox.</summary>
/// <remarks>
/// Everything here takes an <see cref="NpgsqlDataSource"/> from the services: one with the buffer's or the queue's name as key if there is one, else the one without. Options are named like the buffer,
/// those of receivers like their queue. Health checks: <c>batchkit-postgres</c> or <c>batchkit-postgres-name</c> for a buffer's transport or outbox, <c>batchkit-postgres-queue-name</c> for a receiver.
/// </remarks>
public static class PostgresBuilderExtensions
{
    private const string HealthCheckName = "batchkit-postgres";

    /// <summary>Adds the route <see cref="LocalFirstRouter.RemoteRoute"/>: output leaves to queues in PostgreSQL.</summary>
    /// <param name="builder">What <c>AddBatchKit</c> returned.</param>
    /// <param name="configure">Sets the options.</param>
    /// <param name="partitions">Ordered lanes; see <see cref="OutputRoute"/>.</param>
    public static BatchKitBuilder UsePostgres(this BatchKitBuilder builder, Action<PostgresOptions>? configure = null, int partitions = 1)
    {
        ArgumentNullException.ThrowIfNull(builder);
        AddOptions<PostgresOptions, PostgresOptionsValidator>(builder.Services, builder.Name, configure);
        builder.Services.AddKeyedSingleton(builder.Name, static (services, key) => new PostgresQueueTransport(
            DataSourceOf(services, (string)key!), OptionsOf<PostgresOptions>(services, key), services.GetService<TimeProvider>(), services.GetService<ILogger<PostgresQueueTransport>>()));
        AddHealthCheck(builder.Services, BufferCheckName(builder), provider => new HealthCheck(provider.GetRequiredKeyedService<PostgresQueueTransport>(builder.Name), outbox: null, receiver: null));
        return builder.AddRoute(LocalFirstRouter.RemoteRoute, services => services.GetRequiredKeyedService<PostgresQueueTransport>(builder.Name), partitions);
    }

    /// <summary>Takes the frames of a queue (<see cref="PostgresOptions.FrameQueue"/> of their sender) and hands their batches to the next transport, in order and once, from the host's start to its stop.</summary>
    /// <param name="builder">What <c>AddBatchKit</c> returned.</param>
    /// <param name="queue">The queue's name, and that of its <see cref="PostgresQueueReceiverOptions"/>, whose <see cref="PostgresQueueReceiverOptions.Shards"/> is 1.</param>
    /// <param name="next">Finds the transport that gets the batches.</param>
    /// <param name="configure">Sets the options.</param>
    /// <exception cref="InvalidOperationException">The queue has a receiver in these services.</exception>
    public static BatchKitBuilder ReceiveFromPostgres(
        this BatchKitBuilder builder, string queue, Func<IServiceProvider, IBatchTransport> next, Action<PostgresQueueReceiverOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ArgumentNullException.ThrowIfNull(next);
        builder.Services.AddPostgresQueueReceiver(queue, services => MakeFrameHandler(services, builder, next), options =>
        {
            options.Shards = 1;
            options.Concurrency = 1;
            // A frame that is buried would be lost output; one that can't be read is buried all the same.
            options.Poison = PoisonPolicy.Block;
            configure?.Invoke(options);
        });
        return builder;
    }

    /// <summary>Adds the route <see cref="LocalFirstRouter.RemoteRoute"/>: output is stored in an outbox, and sent on from there by another transport.</summary>
    /// <param name="builder">What <c>AddBatchKit</c> returned.</param>
    /// <param name="inner">Makes the transport that sends on; the services dispose it.</param>
    /// <param name="configure">Sets the options.</param>
    public static BatchKitBuilder UsePostgresOutbox(
        this BatchKitBuilder builder, Func<IServiceProvider, IBatchTransport> inner, Action<PostgresOutboxOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ArgumentNullException.ThrowIfNull(inner);
        var (name, services) = (builder.Name, builder.Services);
        AddOptions<PostgresOutboxOptions, PostgresOutboxOptionsValidator>(services, name, configure);
        services.AddKeyedSingleton<IBatchTransport>(InnerKey(name), (provider, _) => inner(provider));
        services.AddKeyedSingleton(name, static (provider, key) => new PostgresOutbox(DataSourceOf(provider, (string)key!), provider.GetRequiredKeyedService<IBatchTransport>(InnerKey((string)key!)),
            OptionsOf<PostgresOutboxOptions>(provider, key), provider.GetService<TimeProvider>(), provider.GetService<ILogger<PostgresOutbox>>()));
        services.AddSingleton<IHostedService>(provider => provider.GetRequiredKeyedService<PostgresOutbox>(name));
        AddHealthCheck(services, BufferCheckName(builder), provider => new HealthCheck(transport: null, provider.GetRequiredKeyedService<PostgresOutbox>(name), receiver: null));
        return builder.AddRoute(LocalFirstRouter.RemoteRoute, provider => provider.GetRequiredKeyedService<PostgresOutbox>(name));
    }

    /// <summary>Has the messages of a queue handled, from the host's start to its stop. Once a queue; call it for as many queues as you like.</summary>
    /// <param name="services">The services.</param>
    /// <param name="queue">The queue's name, and that of its <see cref="PostgresQueueReceiverOptions"/>.</param>
    /// <param name="handler">Finds the handler; take it from the services, which dispose it.</param>
    /// <param name="configure">Sets the options.</param>
    /// <exception cref="InvalidOperationException">The queue has a receiver in these services.</exception>
    public static IServiceCollection AddPostgresQueueReceiver(
        this IServiceCollection services, string queue, Func<IServiceProvider, IQueueHandler> handler, Action<PostgresQueueReceiverOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(services);
        ArgumentException.ThrowIfNullOrEmpty(queue);
        ArgumentNullException.ThrowIfNull(handler);
        if (services.Any(service => service.IsKeyedService && service.ServiceType == typeof(PostgresQueueReceiver) && Equals(service.ServiceKey, queue)))
            throw new InvalidOperationException($"The queue '{queue}' already has a receiver; raise its {nameof(PostgresQueueReceiverOptions.Concurrency)} instead.");
        AddOptions<PostgresQueueReceiverOptions, PostgresQueueReceiverOptionsValidator>(services, queue, options =>
        {
            options.Queue = queue;
            configure?.Invoke(options);
        });
        services.AddKeyedSingleton(queue, (provider, key) => new PostgresQueueReceiver(
            DataSourceOf(provider, queue), OptionsOf<PostgresQueueReceiverOptions>(provider, key), handler(provider), provider.GetService<TimeProvider>(), provider.GetService<ILogger<PostgresQueueReceiver>>()));
        services.AddSingleton<IHostedService>(provider => provider.GetRequiredKeyedService<PostgresQueueReceiver>(queue));
        AddHealthCheck(services, $"{HealthCheckName}-queue-{queue}", provider => new HealthCheck(transport: null, outbox: null, provider.GetRequiredKeyedService<PostgresQueueReceiver>(queue)));
        return services;
    }

    private static void AddOptions<
        [DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicParameterlessConstructor)] TOptions,
        [DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] TValidator>(IServiceCollection services, string name, Action<TOptions>? configure)
        where TOptions : class
        where TValidator : class, IValidateOptions<TOptions>
    {
        if (configure is not null)
            services.Configure(name, configure);
        services.TryAddEnumerable(ServiceDescriptor.Singleton<IValidateOptions<TOptions>, TValidator>());
        services.AddOptions<TOptions>(name).ValidateOnStart();
    }

    private static TOptions OptionsOf<[DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicParameterlessConstructor)] TOptions>(IServiceProvider services, object? name) =>
        services.GetRequiredService<IOptionsMonitor<TOptions>>().Get((string)name!);

    private static NpgsqlDataSource DataSourceOf(IServiceProvider services, string name) =>
        services.GetKeyedService<NpgsqlDataSource>(name) ?? services.GetService<NpgsqlDataSource>()
        ?? throw new InvalidOperationException(
            $"The services have no {nameof(NpgsqlDataSource)}: add one, as with AddSingleton({nameof(NpgsqlDataSource)}.{nameof(NpgsqlDataSource.Create)}(connectionString)), or one with the key '{name}'.");

    private static string InnerKey(string name) => $"{HealthCheckName}-outbox-{name}";

    private static string BufferCheckName(BatchKitBuilder builder) => builder.Name.Length == 0 ? HealthCheckName : $"{HealthCheckName}-{builder.Name}";

    private static void AddHealthCheck(IServiceCollection services, string name, Func<IServiceProvider, HealthCheck> make) =>
        services.AddHealthChecks().Add(new HealthCheckRegistration(name, make, failureStatus: null, tags: ["batchkit"]));

    private static FrameHandler MakeFrameHandler(IServiceProvider services, BatchKitBuilder builder, Func<IServiceProvider, IBatchTransport> next)
    {
        var node = OptionsOf<OutputBufferOptions>(services, builder.Name).Node;
        // A group's output has taken the local route already where there is one.
        var options = new BatchReceiverOptions { Node = node, DropOwnGroups = builder.HasRoute(LocalFirstRouter.LocalRoute) };
        return new FrameHandler(new BatchReceiver(next(services), options, services.GetService<TimeProvider>(), services.GetService<ILogger<BatchReceiver>>()));
    }

    /// <summary>Says whether output is stored and sent on, and a queue's messages are handled, whichever of them there are.</summary>
    private sealed class HealthCheck(PostgresQueueTransport? transport, PostgresOutbox? outbox, PostgresQueueReceiver? receiver) : IHealthCheck
    {
        public async Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default)
        {
            var sending = transport is null ? outbox?.Fault : await transport.FindFaultAsync(cancellationToken).ConfigureAwait(false);
            return WayHealth.Judge(context.Registration.FailureStatus, sending, receiver?.Fault, receiver?.GetStatistics().FailuresInARow ?? 0);
        }
    }
}
