using System.Diagnostics.CodeAnalysis;
using BatchKit;
using BatchKit.MassTransit;
using BatchKit.RabbitMQ;
using BatchKit.Transports;
using MassTransit;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Sends a buffer's output over a MassTransit bus, and receives frames from the bus.</summary>
public static class MassTransitBuilderExtensions
{
    private const string HealthCheckName = "batchkit-masstransit";

    /// <summary>Sends the buffer's output for other nodes, and for named handles, over a MassTransit bus.</summary>
    /// <remarks>
    /// Both directions of a buffer share its options. By default the buffer creates an in-memory bus. With <see cref="MassTransitOptions.RabbitMq"/> it creates a bus over RabbitMQ for each direction; with
    /// <see cref="MassTransitOptions.Bus"/> it uses the application's. The host starts even while the broker is down, unless <see cref="MassTransitOptions.FailFast"/> is set. A health check,
    /// <c>batchkit-masstransit</c> or <c>batchkit-masstransit-name</c>, reports the state of the bus.
    /// </remarks>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned.</param>
    /// <param name="configure">Configures the options, whose name is the buffer's; null leaves the defaults.</param>
    /// <param name="partitions">The number of partitions of the route; see <see cref="OutputRoute"/>. All share one bus.</param>
    /// <returns>The builder.</returns>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="partitions"/> is outside its range.</exception>
    /// <exception cref="InvalidOperationException">The buffer already has a route of that name.</exception>
    public static BatchKitBuilder UseMassTransit(this BatchKitBuilder builder, Action<MassTransitOptions>? configure = null, int partitions = 1)
    {
        ArgumentNullException.ThrowIfNull(builder);
        AddBus(builder, configure);
        KeyedServices.Add(builder.Services, builder.Name, (services, key) =>
            new MassTransitTransport(services.GetRequiredKeyedService<BusOwner>(key).Sending!, services.GetService<TimeProvider>(), builder.CreateSigner(services)));
        return builder.AddRoute(LocalFirstRouter.RemoteRoute, services => KeyedServices.GetTransport<MassTransitTransport>(services, builder.Services, builder.Name), partitions);
    }

    /// <inheritdoc cref="UseMassTransit(BatchKitBuilder, Action{MassTransitOptions}, int)"/>
    /// <remarks><inheritdoc cref="ReceiveFromMassTransit(BatchKitBuilder, Func{IServiceProvider, IBatchTransport}, IConfiguration, Action{MassTransitOptions})" path="/remarks"/></remarks>
    public static BatchKitBuilder UseMassTransit(this BatchKitBuilder builder, IConfiguration section, Action<MassTransitOptions>? configure = null, int partitions = 1)
    {
        AdapterServices.AddSection(builder, section, new MassTransitOptionsValidator(), MassTransitOptions.Read);
        return builder.UseMassTransit(configure, partitions);
    }

    /// <summary>Passes the messages for this node (<see cref="OutputBufferOptions.Node"/>) to a handler, in a scope of the services for each batch, from the host's start to its stop.</summary>
    /// <remarks>
    /// A batch contains the messages of one frame, which is one message of the bus. The senders are other BatchKit processes. A message keeps the header that its sender wrote: key, type, content type,
    /// reply-to, correlation data and properties are not changed. MassTransit's own headers are not passed on. The buffer's codec reads typed messages.
    /// </remarks>
    /// <typeparam name="THandler">The handler; it is registered as a scoped service unless the services have it.</typeparam>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned. It needs no route.</param>
    /// <param name="configure">Configures the options, whose name is the buffer's. Settings made by <see cref="UseMassTransit(BatchKitBuilder, Action{MassTransitOptions}, int)"/> are kept.</param>
    /// <returns>The builder.</returns>
    /// <exception cref="InvalidOperationException">The buffer receives from MassTransit already.</exception>
    public static BatchKitBuilder ReceiveFromMassTransit<[DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>(
        this BatchKitBuilder builder, Action<MassTransitOptions>? configure = null)
        where THandler : class, IMessageHandler
    {
        ArgumentNullException.ThrowIfNull(builder);
        return builder.ReceiveFromMassTransit(builder.AddHandler<THandler>(), configure);
    }

    /// <summary>Receives this node's frames from a MassTransit bus, from the host's start to its stop. On RabbitMQ it also leases the node's number (<see cref="NodeNumber"/>).</summary>
    /// <remarks><inheritdoc cref="UseMassTransit(BatchKitBuilder, Action{MassTransitOptions}, int)" path="/remarks"/></remarks>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned.</param>
    /// <param name="next">Returns the transport that gets the batches: the one to this node's connections, or your own.</param>
    /// <param name="configure">Configures the options, whose name is the buffer's. Settings made by <see cref="UseMassTransit(BatchKitBuilder, Action{MassTransitOptions}, int)"/> are kept.</param>
    /// <returns>The builder.</returns>
    /// <exception cref="InvalidOperationException">The buffer receives from MassTransit already.</exception>
    public static BatchKitBuilder ReceiveFromMassTransit(
        this BatchKitBuilder builder, Func<IServiceProvider, IBatchTransport> next, Action<MassTransitOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ArgumentNullException.ThrowIfNull(next);
        AdapterServices.ThrowIfReceiving<MassTransitReceiver>(builder, "MassTransit");
        AddBus(builder, configure);
        builder.LeaseNode();
        return AdapterServices.AddReceiver(
            builder, services => CreateReceiver(services, builder, next), (services, receiver) => new ReceiverHostedService(receiver, services.GetRequiredKeyedService<BusOwner>(builder.Name)));
    }

    /// <inheritdoc cref="ReceiveFromMassTransit(BatchKitBuilder, Func{IServiceProvider, IBatchTransport}, Action{MassTransitOptions})"/>
    /// <remarks>
    /// The keys of the section are the names of <see cref="MassTransitOptions"/>' properties; certificates and callbacks can't be in a section. It is read once, when the options are first needed; errors
    /// name it. <paramref name="configure"/> runs after that.
    /// </remarks>
    public static BatchKitBuilder ReceiveFromMassTransit(
        this BatchKitBuilder builder, Func<IServiceProvider, IBatchTransport> next, IConfiguration section, Action<MassTransitOptions>? configure = null)
    {
        AdapterServices.AddSection(builder, section, new MassTransitOptionsValidator(), MassTransitOptions.Read);
        return builder.ReceiveFromMassTransit(next, configure);
    }

    private static void AddBus(BatchKitBuilder builder, Action<MassTransitOptions>? configure)
    {
        var name = builder.Name;
        OptionsRules.Add(builder.Services, name, new MassTransitOptionsValidator(), configure);
        if (KeyedServices.Contain<BusOwner>(builder.Services, name))
            return;

        builder.Services.AddKeyedSingleton(name, (services, _) => CreateOwner(services, builder));
        builder.Services.AddSingleton<IHostedService>(services => new BusHostedService(
            services.GetRequiredKeyedService<BusOwner>(name), services.GetKeyedService<MassTransitReceiver>(name), services));
        AdapterServices.AddHealthCheck(builder, HealthCheckName, services =>
            new HealthCheck(services.GetRequiredKeyedService<BusOwner>(name), services.GetKeyedService<MassTransitReceiver>(name), services.GetKeyedService<MassTransitTransport>(name)));
    }

    private static BusOwner CreateOwner(IServiceProvider services, BatchKitBuilder builder)
    {
        var name = builder.Name;
        var owner = new BusOwner(services, name, services.GetRequiredService<IOptionsMonitor<MassTransitOptions>>().Get(name),
            KeyedServices.Contain<MassTransitTransport>(builder.Services, name), KeyedServices.Contain<MassTransitReceiver>(builder.Services, name),
            services.GetService<TimeProvider>() ?? TimeProvider.System, services.GetService<ILoggerFactory>());
        // Without a host, the bus starts when the buffer is first resolved.
        owner.Start();
        return owner;
    }

    private static MassTransitReceiver CreateReceiver(IServiceProvider services, BatchKitBuilder builder, Func<IServiceProvider, IBatchTransport> next)
    {
        var node = services.GetRequiredKeyedService<NodeNumber>(builder.Name);
        var options = services.GetRequiredService<IOptionsMonitor<MassTransitOptions>>().Get(builder.Name);
        var connection = services.GetRequiredKeyedService<BusOwner>(builder.Name).Receiving!;
        // Not the name of the node's queue: the number may not be leased yet, and each node's name would be a time series of its own.
        var receiver = builder.CreateReceiver(services, next, receiving => (receiving.MessagingSystem, receiving.QueueName) = ("masstransit", options.Prefix));
        return new MassTransitReceiver(connection, node, receiver, services.GetService<TimeProvider>(), services.GetService<ILogger<MassTransitReceiver>>());
    }

    /// <summary>Reports whether a buffer's own bus is connected and whether its receiver receives, and otherwise the reason.</summary>
    private sealed class HealthCheck(BusOwner owner, MassTransitReceiver? receiver, MassTransitTransport? transport) : IHealthCheck
    {
        public Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default) => Task.FromResult(Check(context));

        private HealthCheckResult Check(HealthCheckContext context)
        {
            var (sending, receiving) = (FindFault(owner.Sending), FindFault(owner.Receiving));
            // Both go to one broker, and the second may not have been told why yet.
            var receivingFault = receiving is null ? receiver?.Fault : sending ?? receiving;
            var exception = (sending is not null ? owner.Sending : receiving is not null ? owner.Receiving : null)?.Link?.Failure;
            var observers = owner.LoggerFault ?? receiver?.LoggerFault ?? receiver?.CallbackFault ?? transport?.CallbackFault;
            var result = AdapterServices.Evaluate(context, FindAlarm() ?? sending, receivingFault, receiver?.GetStatistics(), observers);
            return result.Status == HealthStatus.Healthy ? HealthCheckResult.Healthy($"Connected to {owner.Target}.") : new HealthCheckResult(result.Status, result.Description, exception);
        }

        private string? FindAlarm() => owner.Sending?.Link?.Alarm.Reason is { } alarm ? $"{owner.Target} accepts no messages now: {alarm}." : null;

        // MassTransit's own health lags behind: its endpoint for replies pauses for up to 30 s. It is asked only where nothing else is known of the application's bus.
        private string? FindFault(BusConnection? bus) => bus?.Link is { IsOpen: false } link
            ? $"Not connected to {owner.Target}: {(link.Fault ?? "The connection is not open").TrimEnd('.')}. {BusLink.Remedy}"
            : receiver is null && bus is { IsStarted: false } ? $"Not connected to {owner.Target}: MassTransit reports it as unhealthy. Start it, and check its broker." : null;
    }
}
