using System.Diagnostics.CodeAnalysis;
using System.Diagnostics.Metrics;
using BatchKit;
using BatchKit.Broadcast;
using BatchKit.Diagnostics;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Sends a buffer's output to this node's own TCP, telnet and WebSocket clients.</summary>
/// <remarks>
/// <para>The <see cref="BroadcastTransport"/> is a keyed service with the buffer's name; for the unnamed buffer it is also registered without a key. Its options have the buffer's name and can be
/// bound to configuration; its health check is <c>batchkit-broadcast</c>, or <c>batchkit-broadcast-name</c>.</para>
/// <para>When the host stops, and before any hosted service stops, the listeners stop accepting connections, the buffer is flushed, and every client gets what is queued for it and the goodbye, and is
/// closed. To write something before that, write it in the StoppingAsync of an <see cref="IHostedLifecycleService"/> that is registered later, because the host stops services in reverse order.</para>
/// </remarks>
public static class BroadcastBuilderExtensions
{
    private const string HealthCheckName = "batchkit-broadcast";

    /// <summary>Adds the route <see cref="LocalFirstRouter.LocalRoute"/>, which sends output for connections and groups to this node's clients.</summary>
    /// <param name="builder">What <c>AddBatchKit</c> returned. The node's number is the buffer's <see cref="NodeNumber"/>.</param>
    /// <param name="configure">Sets the options.</param>
    /// <param name="partitions">The number of partitions; see <see cref="OutputRoute"/>. With several, a broadcast to thousands delays only its own partition.</param>
    public static BatchKitBuilder UseBroadcast(this BatchKitBuilder builder, Action<BroadcastOptions>? configure = null, int partitions = 1)
    {
        ArgumentNullException.ThrowIfNull(builder);
        builder.AddBroadcast(configure);
        return builder.AddRoute(LocalFirstRouter.LocalRoute, services => KeyedServices.GetTransport<BroadcastTransport>(services, builder.Services, builder.Name), partitions);
    }

    /// <inheritdoc cref="UseBroadcast(BatchKitBuilder, Action{BroadcastOptions}, int)"/>
    /// <remarks><inheritdoc cref="AddBroadcast(BatchKitBuilder, IConfiguration, Action{BroadcastOptions})" path="/remarks"/></remarks>
    public static BatchKitBuilder UseBroadcast(this BatchKitBuilder builder, IConfiguration section, Action<BroadcastOptions>? configure = null, int partitions = 1)
    {
        AdapterServices.AddSection(builder, section, new BroadcastOptionsValidator(), BroadcastOptions.Read);
        return builder.UseBroadcast(configure, partitions);
    }

    /// <summary>Adds the clients without a route to them. This is for a gateway: a receiver brings their output (<c>ReceiveFromRabbitMq(services => services.GetRequiredKeyedService&lt;BroadcastTransport&gt;(name))</c>), and this buffer sends their input.</summary>
    /// <param name="builder">What <c>AddBatchKit</c> returned.</param>
    /// <param name="configure">Sets the options.</param>
    public static BatchKitBuilder AddBroadcast(this BatchKitBuilder builder, Action<BroadcastOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        var (name, services) = (builder.Name, builder.Services);
        OptionsRules.Add(services, name, new BroadcastOptionsValidator(), configure);
        if (KeyedServices.Contain<BroadcastTransport>(services, name))
            return builder;
        KeyedServices.Add(services, name, CreateTransport);
        services.AddKeyedSingleton(name, static (provider, key) => CreateHostedService(provider, (string)key!));
        services.AddSingleton<IHostedService>(provider => provider.GetRequiredKeyedService<BroadcastHostedService>(name));
        AdapterServices.AddHealthCheck(builder, HealthCheckName, provider => new BroadcastHealthCheck(provider.GetRequiredKeyedService<BroadcastTransport>(name)));
        return builder;
    }

    /// <inheritdoc cref="AddBroadcast(BatchKitBuilder, Action{BroadcastOptions})"/>
    /// <remarks>
    /// The keys of the section are the names of <see cref="BroadcastOptions"/>' properties; a network is written as <c>10.0.0.0/8</c>. It is read once, when the options are first needed; errors name it.
    /// <paramref name="configure"/> runs after that.
    /// </remarks>
    public static BatchKitBuilder AddBroadcast(this BatchKitBuilder builder, IConfiguration section, Action<BroadcastOptions>? configure = null)
    {
        AdapterServices.AddSection(builder, section, new BroadcastOptionsValidator(), BroadcastOptions.Read);
        return builder.AddBroadcast(configure);
    }

    /// <summary>Listens for TCP or telnet clients (<see cref="BroadcastListenerOptions.Protocol"/>) from the host's start to its stop.</summary>
    /// <remarks>
    /// The records of each read are delivered within a buffering scope of this buffer for the connection's handle. The <see cref="BroadcastListener"/> is a keyed service with the buffer's
    /// name; it knows the real <see cref="BroadcastListener.EndPoint"/>.
    /// </remarks>
    /// <param name="builder">What <c>UseBroadcast</c> or <c>AddBroadcast</c> returned.</param>
    /// <param name="options">The settings of the listener.</param>
    /// <param name="handlers">Creates the handler of each connection.</param>
    public static BatchKitBuilder Listen(
        this BatchKitBuilder builder, BroadcastListenerOptions options, Func<IServiceProvider, ClientConnection, IConnectionHandler> handlers)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(handlers);
        var (name, services) = (builder.Name, builder.Services);
        services.AddKeyedSingleton(name, (provider, key) => CreateListener(provider, (string)key!, options, handlers));
        // Without UseBroadcast or AddBroadcast nothing would create the listener.
        services.AddOptions<BroadcastListenerOptions>(name).Validate<IServiceProviderIsKeyedService>(
            (_, registered) => registered.IsKeyedService(typeof(BroadcastTransport), name), WithoutClients(nameof(Listen), name)).ValidateOnStart();
        return builder;
    }

    /// <typeparam name="THandler">The handler. One is created for each connection, with the <see cref="ClientConnection"/> and services as constructor arguments.</typeparam>
    /// <inheritdoc cref="Listen(BatchKitBuilder, BroadcastListenerOptions, Func{IServiceProvider, ClientConnection, IConnectionHandler})"/>
    public static BatchKitBuilder Listen<[DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>(
        this BatchKitBuilder builder, BroadcastListenerOptions options)
        where THandler : class, IConnectionHandler
    {
        ArgumentNullException.ThrowIfNull(builder);
        var factory = ActivatorUtilities.CreateFactory<THandler>([typeof(ClientConnection)]);
        var name = builder.Name;
        builder.BeforeHostedServices(services =>
        {
            ConnectionHandlerCheck.ThrowIfUncreatable<THandler>(services, name);
            return static _ => Task.CompletedTask;
        });
        return builder.Listen(options, (services, connection) => factory(services, [connection]));
    }

    /// <summary>The error of a method that needs clients and found none.</summary>
    internal static string WithoutClients(string method, string name) =>
        $"{method} found no clients of {(name.Length == 0 ? "the unnamed output buffer" : $"the output buffer '{name}'")}. Call UseBroadcast, or AddBroadcast for a gateway, on what AddBatchKit returned for that buffer.";

    private static BroadcastTransport CreateTransport(IServiceProvider services, string name) => new(
        services.GetRequiredService<IOptionsMonitor<BroadcastOptions>>().Get(name),
        services.GetRequiredKeyedService<NodeNumber>(name),
        services.GetService<TimeProvider>(), services.GetService<ILogger<BroadcastTransport>>(), BufferMeters.Of(services.GetService<IMeterFactory>(), name));

    private static BroadcastHostedService CreateHostedService(IServiceProvider services, string name) => new(
        services.GetRequiredKeyedService<BatchKitBuilder>(name), services.GetRequiredKeyedService<BroadcastTransport>(name),
        services.GetRequiredKeyedService<OutputBuffer>(name), [.. services.GetKeyedServices<BroadcastListener>(name)]);

    private static BroadcastListener CreateListener(
        IServiceProvider services, string name, BroadcastListenerOptions options, Func<IServiceProvider, ClientConnection, IConnectionHandler> handlers) => new(
        services.GetRequiredKeyedService<BroadcastTransport>(name), options, connection => handlers(services, connection), services.GetRequiredKeyedService<OutputBuffer>(name),
        services.GetService<TimeProvider>(), services.GetService<ILogger<BroadcastListener>>());
}
