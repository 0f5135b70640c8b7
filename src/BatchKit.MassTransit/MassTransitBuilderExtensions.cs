using BatchKit;
using BatchKit.MassTransit;
using BatchKit.Transports;
using MassTransit;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Connects output buffers with MassTransit.</summary>
public static class MassTransitBuilderExtensions
{
    private const string HealthCheckName = "batchkit-masstransit";

    /// <summary>Sends the buffer's output for other nodes, and for named destinations, over a MassTransit bus.</summary>
    /// <remarks>
    /// Both ends of a buffer share its options and its bus. Without further settings the bus is one of this buffer's own, in memory; with
    /// <see cref="MassTransitOptions.RabbitMq"/> one over RabbitMQ; with <see cref="MassTransitOptions.Bus"/> the application's. The host starts while
    /// the broker is down. A health check <c>batchkit-masstransit</c>, or <c>batchkit-masstransit-name</c>, says how the bus is.
    /// </remarks>
    /// <param name="builder">What <c>AddBatchKit</c> returned.</param>
    /// <param name="configure">Sets the options, named like the buffer.</param>
    /// <param name="partitions">Ordered lanes; see <see cref="OutputRoute"/>.</param>
    /// <returns>The builder.</returns>
    public static BatchKitBuilder UseMassTransit(this BatchKitBuilder builder, Action<MassTransitOptions>? configure = null, int partitions = 1)
    {
        ArgumentNullException.ThrowIfNull(builder);
        AddBus(builder, configure);
        builder.Services.AddKeyedSingleton(builder.Name, (services, key) =>
            new MassTransitTransport(services.GetRequiredKeyedService<BusOwner>(key).Connection, services.GetService<TimeProvider>()));
        return builder.AddRoute(LocalFirstRouter.RemoteRoute, services => services.GetRequiredKeyedService<MassTransitTransport>(builder.Name), partitions);
    }

    /// <summary>Receives this node's frames from a MassTransit bus. The node is the buffer's, <see cref="OutputBufferOptions.Node"/>.</summary>
    /// <remarks><inheritdoc cref="UseMassTransit" path="/remarks"/></remarks>
    /// <param name="builder">What <c>AddBatchKit</c> returned.</param>
    /// <param name="next">Finds where the batches go.</param>
    /// <param name="configure">Sets the options, named like the buffer; those that <see cref="UseMassTransit"/> has set stay.</param>
    /// <returns>The builder.</returns>
    /// <exception cref="InvalidOperationException">The buffer receives from MassTransit already.</exception>
    public static BatchKitBuilder ReceiveFromMassTransit(
        this BatchKitBuilder builder, Func<IServiceProvider, IBatchTransport> next, Action<MassTransitOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ArgumentNullException.ThrowIfNull(next);
        var name = builder.Name;
        if (IsRegistered<MassTransitReceiver>(builder))
            throw new InvalidOperationException($"{builder} receives from MassTransit already.");

        AddBus(builder, configure);
        builder.Services.AddKeyedSingleton(name, (services, _) => MakeReceiver(services, builder, next));
        builder.Services.AddSingleton<IHostedService>(services => new ReceiverHostedService(
            services.GetRequiredKeyedService<MassTransitReceiver>(name), services.GetRequiredKeyedService<BusOwner>(name)));
        return builder;
    }

    private static void AddBus(BatchKitBuilder builder, Action<MassTransitOptions>? configure)
    {
        var name = builder.Name;
        builder.Services.AddOptions<MassTransitOptions>(name).Configure(configure ?? (static _ => { })).ValidateOnStart();
        if (IsRegistered<BusOwner>(builder))
            return;

        builder.Services.TryAddEnumerable(ServiceDescriptor.Singleton<IValidateOptions<MassTransitOptions>, MassTransitOptionsValidator>());
        builder.Services.AddKeyedSingleton(name, (services, _) => MakeOwner(services, name));
        builder.Services.AddSingleton<IHostedService>(services => new BusHostedService(
            services.GetRequiredKeyedService<BusOwner>(name), services.GetKeyedService<MassTransitReceiver>(name)));
        builder.Services.AddHealthChecks().Add(new HealthCheckRegistration(
            name.Length == 0 ? HealthCheckName : $"{HealthCheckName}-{name}",
            services => new HealthCheck(services.GetRequiredKeyedService<BusOwner>(name), services.GetKeyedService<MassTransitReceiver>(name)), failureStatus: null, tags: ["batchkit"]));
    }

    private static BusOwner MakeOwner(IServiceProvider services, string name)
    {
        var owner = new BusOwner(services, name, services.GetRequiredService<IOptionsMonitor<MassTransitOptions>>().Get(name),
            services.GetService<TimeProvider>() ?? TimeProvider.System, services.GetService<ILoggerFactory>());
        // Where there is no host, asking for the buffer is the start.
        owner.Start();
        return owner;
    }

    private static MassTransitReceiver MakeReceiver(IServiceProvider services, BatchKitBuilder builder, Func<IServiceProvider, IBatchTransport> next)
    {
        var node = services.GetRequiredService<IOptionsMonitor<OutputBufferOptions>>().Get(builder.Name).Node;
        var timeProvider = services.GetService<TimeProvider>();
        // A group's output has taken the local route already where there is one.
        var options = new BatchReceiverOptions { Node = node, DropOwnGroups = builder.HasRoute(LocalFirstRouter.LocalRoute) };
        var receiver = new BatchReceiver(next(services), options, timeProvider, services.GetService<ILogger<BatchReceiver>>());
        return new MassTransitReceiver(services.GetRequiredKeyedService<BusOwner>(builder.Name).Connection, node, receiver, timeProvider,
            services.GetService<ILogger<MassTransitReceiver>>());
    }

    private static bool IsRegistered<T>(BatchKitBuilder builder) =>
        builder.Services.Any(service => service.IsKeyedService && service.ServiceType == typeof(T) && builder.Name.Equals(service.ServiceKey));

    /// <summary>Says whether a buffer's bus is connected and its receiver receives, and why not. Registered as <c>batchkit-masstransit</c>, or <c>batchkit-masstransit-name</c>.</summary>
    private sealed class HealthCheck(BusOwner owner, MassTransitReceiver? receiver) : IHealthCheck
    {
        public Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default)
        {
            var fault = FindBusFault(out var exception) ?? FindReceiverFault();
            return Task.FromResult(fault is null
                ? HealthCheckResult.Healthy($"Connected to {owner.Target}.")
                : new HealthCheckResult(context.Registration.FailureStatus, fault, exception));
        }

        private string? FindBusFault(out Exception? exception)
        {
            exception = null;
            // An application's bus answers for all its endpoints, of which ours is one.
            if (!owner.IsOwn || owner.Connection.Bus is not IBusControl bus || bus.CheckHealth() is not { Status: not BusHealthStatus.Healthy } health)
                return null;
            exception = health.Exception;
            return $"Not connected to {owner.Target}: {exception?.GetBaseException().Message ?? health.Description}";
        }

        private string? FindReceiverFault() => receiver?.Fault is { } fault ? $"Does not receive from {owner.Target}: {fault}" : null;
    }
}
