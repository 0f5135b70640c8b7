using System.Diagnostics.CodeAnalysis;
using System.Diagnostics.Metrics;
using BatchKit;
using BatchKit.Redis;
using BatchKit.Transports;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;
using StackExchange.Redis;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Sends a buffer's output over Redis pub/sub, and receives from there.</summary>
/// <remarks>
/// Both directions of a buffer share one <see cref="RedisOptions"/>, whose options name is the buffer's name, one connection, and one health check: <c>batchkit-redis</c>, or <c>batchkit-redis-name</c>
/// for a named buffer.
/// </remarks>
public static class RedisBuilderExtensions
{
    private const string HealthCheckName = "batchkit-redis";

    /// <summary>Adds the route <see cref="LocalFirstRouter.RemoteRoute"/>: output for other nodes is published at Redis.</summary>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned.</param>
    /// <param name="configure">Configures the options; null leaves the defaults.</param>
    /// <param name="partitions">The number of partitions of the route; see <see cref="OutputRoute"/>. All share one connection.</param>
    /// <exception cref="InvalidOperationException">The buffer already has a route of that name.</exception>
    public static BatchKitBuilder UseRedis(this BatchKitBuilder builder, Action<RedisOptions>? configure = null, int partitions = 1)
    {
        ArgumentNullException.ThrowIfNull(builder);
        AddShared(builder, configure);
        KeyedServices.Add(builder.Services, builder.Name, CreateTransport);
        return builder.AddRoute(LocalFirstRouter.RemoteRoute, services => KeyedServices.GetTransport<RedisTransport>(services, builder.Services, builder.Name), partitions);
    }

    /// <inheritdoc cref="UseRedis(BatchKitBuilder, Action{RedisOptions}, int)"/>
    /// <remarks><inheritdoc cref="ReceiveFromRedis(BatchKitBuilder, Func{IServiceProvider, IBatchTransport}, IConfiguration, Action{RedisOptions})" path="/remarks"/></remarks>
    public static BatchKitBuilder UseRedis(this BatchKitBuilder builder, IConfiguration section, Action<RedisOptions>? configure = null, int partitions = 1)
    {
        AdapterServices.AddSection(builder, section, new RedisOptionsValidator(), RedisOptions.Read);
        return builder.UseRedis(configure, partitions);
    }

    /// <summary>Passes the messages for this node to a handler, in a scope of the services for each batch, from the host's start to its stop.</summary>
    /// <typeparam name="THandler">The handler; it is registered as a scoped service unless the services have it.</typeparam>
    /// <inheritdoc cref="ReceiveFromRedis(BatchKitBuilder, Func{IServiceProvider, IBatchTransport}, Action{RedisOptions})"/>
    public static BatchKitBuilder ReceiveFromRedis<[DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>(
        this BatchKitBuilder builder, Action<RedisOptions>? configure = null)
        where THandler : class, IMessageHandler
    {
        ArgumentNullException.ThrowIfNull(builder);
        return builder.ReceiveFromRedis(builder.AddHandler<THandler>(), configure);
    }

    /// <summary>Receives what is published for this node (<see cref="OutputBufferOptions.Node"/>) and for all nodes, from the host's start to its stop.</summary>
    /// <remarks>Redis does not lease node numbers: set <see cref="OutputBufferOptions.Node"/> on each server, unless all output is for named handles, as that of SignalR's hubs is.</remarks>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned.</param>
    /// <param name="next">Returns the transport that gets the batches: the one to this node's connections, or your own.</param>
    /// <param name="configure">Configures the options; null leaves the defaults.</param>
    /// <exception cref="InvalidOperationException">The buffer receives from Redis already.</exception>
    public static BatchKitBuilder ReceiveFromRedis(
        this BatchKitBuilder builder, Func<IServiceProvider, IBatchTransport> next, Action<RedisOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ArgumentNullException.ThrowIfNull(next);
        AdapterServices.ThrowIfReceiving<RedisReceiver>(builder, "Redis");
        AddShared(builder, configure);
        return AdapterServices.AddReceiver(builder, services => CreateReceiver(services, builder, next));
    }

    /// <inheritdoc cref="ReceiveFromRedis(BatchKitBuilder, Func{IServiceProvider, IBatchTransport}, Action{RedisOptions})"/>
    /// <remarks>The keys of the section are the names of <see cref="RedisOptions"/>' properties; callbacks can't be in a section. It is read once, when the options are first needed; errors name it. <paramref name="configure"/> runs after that.</remarks>
    public static BatchKitBuilder ReceiveFromRedis(
        this BatchKitBuilder builder, Func<IServiceProvider, IBatchTransport> next, IConfiguration section, Action<RedisOptions>? configure = null)
    {
        AdapterServices.AddSection(builder, section, new RedisOptionsValidator(), RedisOptions.Read);
        return builder.ReceiveFromRedis(next, configure);
    }

    private static void AddShared(BatchKitBuilder builder, Action<RedisOptions>? configure)
    {
        var (name, services) = (builder.Name, builder.Services);
        OptionsRules.Add(services, name, new RedisOptionsValidator(), configure);
        if (KeyedServices.Contain<RedisConnection>(services, name))
            return;
        services.AddKeyedSingleton(name, static (provider, key) => new RedisConnection(
            OptionsOf(provider, (string)key!), provider.GetService<IConnectionMultiplexer>(), provider.GetService<ILogger<RedisTransport>>()));
        builder.BeforeHostedServices(provider =>
        {
            var transport = provider.GetKeyedService<RedisTransport>(name);
            return cancellationToken => transport?.StartAsync().WaitAsync(cancellationToken) ?? Task.CompletedTask;
        });
        AdapterServices.AddHealthCheck(builder, HealthCheckName, provider => new HealthCheck(provider.GetKeyedService<RedisTransport>(name), provider.GetKeyedService<RedisReceiver>(name)));
    }

    private static RedisOptions OptionsOf(IServiceProvider services, string name) => services.GetRequiredService<IOptionsMonitor<RedisOptions>>().Get(name).Copy();

    private static RedisTransport CreateTransport(IServiceProvider services, string name) => new(
        OptionsOf(services, name), services.GetRequiredKeyedService<RedisConnection>(name), services.GetService<TimeProvider>(),
        services.GetRequiredKeyedService<BatchKitBuilder>(name).CreateSigner(services), services.GetKeyedService<ConnectionMetrics>(name));

    private static RedisReceiver CreateReceiver(IServiceProvider services, BatchKitBuilder builder, Func<IServiceProvider, IBatchTransport> next)
    {
        var options = OptionsOf(services, builder.Name);
        AdapterServices.ThrowIfShared(services, builder, services.GetRequiredKeyedService<RedisConnection>(builder.Name).Target, options.Prefix);
        var receiver = builder.CreateReceiver(services, next, receiving => (receiving.MessagingSystem, receiving.QueueName) = ("redis", options.Prefix));
        return new RedisReceiver(
            options, services.GetRequiredKeyedService<NodeNumber>(builder.Name), receiver, services.GetRequiredKeyedService<RedisConnection>(builder.Name),
            services.GetService<TimeProvider>(), services.GetService<ILogger<RedisReceiver>>(), services.GetKeyedService<ConnectionMetrics>(builder.Name), services.GetService<IMeterFactory>(), builder.Name);
    }

    /// <summary>Reports whether the buffer's transport can send and its receiver receives; either may be absent.</summary>
    private sealed class HealthCheck(RedisTransport? transport, RedisReceiver? receiver) : IHealthCheck
    {
        public async Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default)
        {
            var sending = transport?.FindFaultAsync(cancellationToken) ?? Task.FromResult<string?>(null);
            var receiving = receiver?.FindFaultAsync(cancellationToken) ?? Task.FromResult<string?>(null);
            await Task.WhenAll(sending, receiving).ConfigureAwait(false);
            return AdapterServices.Evaluate(context, await sending.ConfigureAwait(false), await receiving.ConfigureAwait(false), receiver?.GetStatistics(), transport?.ObserverFault ?? receiver?.ObserverFault);
        }
    }
}
