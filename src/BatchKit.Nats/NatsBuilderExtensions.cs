using System.Diagnostics.CodeAnalysis;
using System.Diagnostics.Metrics;
using BatchKit;
using BatchKit.Nats;
using BatchKit.Transports;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;
using NATS.Client.Core;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Sends a buffer's output over NATS, and receives from there.</summary>
/// <remarks>
/// Both directions of a buffer share one <see cref="NatsOptions"/>, whose options name is the buffer's name, one connection, and one health check: <c>batchkit-nats</c>, or <c>batchkit-nats-name</c>
/// for a named buffer.
/// </remarks>
public static class NatsBuilderExtensions
{
    private const string HealthCheckName = "batchkit-nats";

    /// <summary>Adds the route <see cref="LocalFirstRouter.RemoteRoute"/>: output for other nodes is published at NATS.</summary>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned.</param>
    /// <param name="configure">Configures the options; null leaves the defaults.</param>
    /// <param name="partitions">The number of partitions of the route; see <see cref="OutputRoute"/>. All share one connection.</param>
    /// <exception cref="InvalidOperationException">The buffer already has a route of that name.</exception>
    public static BatchKitBuilder UseNats(this BatchKitBuilder builder, Action<NatsOptions>? configure = null, int partitions = 1)
    {
        ArgumentNullException.ThrowIfNull(builder);
        AddShared(builder, configure);
        KeyedServices.Add(builder.Services, builder.Name, CreateTransport);
        return builder.AddRoute(LocalFirstRouter.RemoteRoute, services => KeyedServices.GetTransport<NatsTransport>(services, builder.Services, builder.Name), partitions);
    }

    /// <inheritdoc cref="UseNats(BatchKitBuilder, Action{NatsOptions}, int)"/>
    /// <remarks><inheritdoc cref="ReceiveFromNats(BatchKitBuilder, Func{IServiceProvider, IBatchTransport}, IConfiguration, Action{NatsOptions})" path="/remarks"/></remarks>
    public static BatchKitBuilder UseNats(this BatchKitBuilder builder, IConfiguration section, Action<NatsOptions>? configure = null, int partitions = 1)
    {
        AdapterServices.AddSection(builder, section, new NatsOptionsValidator(), NatsOptions.Read);
        return builder.UseNats(configure, partitions);
    }

    /// <summary>Passes the messages for this node to a handler, in a scope of the services for each batch, from the host's start to its stop.</summary>
    /// <typeparam name="THandler">The handler; it is registered as a scoped service unless the services have it.</typeparam>
    /// <inheritdoc cref="ReceiveFromNats(BatchKitBuilder, Func{IServiceProvider, IBatchTransport}, Action{NatsOptions})"/>
    public static BatchKitBuilder ReceiveFromNats<[DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>(
        this BatchKitBuilder builder, Action<NatsOptions>? configure = null)
        where THandler : class, IMessageHandler
    {
        ArgumentNullException.ThrowIfNull(builder);
        return builder.ReceiveFromNats(builder.AddHandler<THandler>(), configure);
    }

    /// <summary>Receives the frames for this node and for all nodes, and leases the node's number (<see cref="NodeNumber"/>), from the host's start to its stop.</summary>
    /// <remarks>With <see cref="NatsDelivery.AtMostOnce"/> no number is leased: set <see cref="OutputBufferOptions.Node"/> on each server, unless all output is for named handles, as that of SignalR's hubs is.</remarks>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned.</param>
    /// <param name="next">Returns the transport that gets the batches: the one to this node's connections, or your own.</param>
    /// <param name="configure">Configures the options; null leaves the defaults.</param>
    /// <exception cref="InvalidOperationException">The buffer receives from NATS already.</exception>
    public static BatchKitBuilder ReceiveFromNats(
        this BatchKitBuilder builder, Func<IServiceProvider, IBatchTransport> next, Action<NatsOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ArgumentNullException.ThrowIfNull(next);
        AdapterServices.ThrowIfReceiving<NatsReceiver>(builder, "NATS");
        AddShared(builder, configure);
        builder.LeaseNode();
        return AdapterServices.AddReceiver(builder, services => CreateReceiver(services, builder, next));
    }

    /// <inheritdoc cref="ReceiveFromNats(BatchKitBuilder, Func{IServiceProvider, IBatchTransport}, Action{NatsOptions})"/>
    /// <remarks>The keys of the section are the names of <see cref="NatsOptions"/>' properties; callbacks can't be in a section. It is read once, when the options are first needed; errors name it. <paramref name="configure"/> runs after that.</remarks>
    public static BatchKitBuilder ReceiveFromNats(
        this BatchKitBuilder builder, Func<IServiceProvider, IBatchTransport> next, IConfiguration section, Action<NatsOptions>? configure = null)
    {
        AdapterServices.AddSection(builder, section, new NatsOptionsValidator(), NatsOptions.Read);
        return builder.ReceiveFromNats(next, configure);
    }

    private static void AddShared(BatchKitBuilder builder, Action<NatsOptions>? configure)
    {
        var (name, services) = (builder.Name, builder.Services);
        OptionsRules.Add(services, name, new NatsOptionsValidator(), configure);
        if (KeyedServices.Contain<NatsLink>(services, name))
            return;
        services.AddKeyedSingleton(name, static (provider, key) => new NatsLink(
            OptionsOf(provider, (string)key!), provider.GetService<INatsConnection>(), provider.GetService<ILogger<NatsTransport>>()));
        builder.BeforeHostedServices(provider => CreateStart(provider.GetKeyedService<NatsTransport>(name), provider.GetKeyedService<NatsReceiver>(name)));
        AdapterServices.AddHealthCheck(builder, HealthCheckName, provider => new HealthCheck(provider.GetKeyedService<NatsTransport>(name), provider.GetKeyedService<NatsReceiver>(name)));
    }

    // The handles that hosted services create contain the node's number, so it is leased before any of them starts.
    private static Func<CancellationToken, Task> CreateStart(NatsTransport? transport, NatsReceiver? receiver) => async cancellationToken =>
    {
        if (transport is not null)
            await transport.StartAsync(cancellationToken).ConfigureAwait(false);
        if (receiver is not null)
            await receiver.LeaseAsync(cancellationToken).ConfigureAwait(false);
    };

    private static NatsOptions OptionsOf(IServiceProvider services, string name) => services.GetRequiredService<IOptionsMonitor<NatsOptions>>().Get(name).Copy();

    private static NatsTransport CreateTransport(IServiceProvider services, string name) => new(
        OptionsOf(services, name), services.GetRequiredKeyedService<NatsLink>(name), services.GetService<TimeProvider>(),
        services.GetRequiredKeyedService<BatchKitBuilder>(name).CreateSigner(services), services.GetKeyedService<ConnectionMetrics>(name));

    private static NatsReceiver CreateReceiver(IServiceProvider services, BatchKitBuilder builder, Func<IServiceProvider, IBatchTransport> next)
    {
        var options = OptionsOf(services, builder.Name);
        if (options is { DeclareTopology: false, Delivery: NatsDelivery.AtLeastOnce } && services.GetRequiredService<IOptionsMonitor<OutputBufferOptions>>().Get(builder.Name).Node is null)
        {
            throw new OptionsValidationException(builder.Name, typeof(OutputBufferOptions), [$"{nameof(OutputBufferOptions)}.{nameof(OutputBufferOptions.Node)} must be set, because "
                + $"{nameof(NatsOptions)}.{nameof(NatsOptions.DeclareTopology)} is false: then no number is leased, and the node's consumer exists already."]);
        }

        AdapterServices.ThrowIfShared(services, builder, services.GetRequiredKeyedService<NatsLink>(builder.Name).Target, options.Prefix);
        var receiver = builder.CreateReceiver(services, next, receiving => (receiving.MessagingSystem, receiving.QueueName) = ("nats", options.Prefix));
        return new NatsReceiver(
            options, services.GetRequiredKeyedService<NodeNumber>(builder.Name), receiver, services.GetRequiredKeyedService<NatsLink>(builder.Name),
            services.GetService<TimeProvider>(), services.GetService<ILogger<NatsReceiver>>(), services.GetKeyedService<ConnectionMetrics>(builder.Name), services.GetService<IMeterFactory>(), builder.Name);
    }

    /// <summary>Reports whether the buffer's transport can send and its receiver receives; either may be absent.</summary>
    private sealed class HealthCheck(NatsTransport? transport, NatsReceiver? receiver) : IHealthCheck
    {
        public Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default) => Task.FromResult(AdapterServices.Evaluate(
            context, transport?.Fault, receiver?.Fault, receiver?.GetStatistics(), transport?.ObserverFault ?? receiver?.ObserverFault));
    }
}
