using System.Diagnostics.CodeAnalysis;
using BatchKit;
using BatchKit.Mqtt;
using BatchKit.Mqtt.Publishing;
using BatchKit.Transports;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Registers the MQTT transport and receiver of an output buffer.</summary>
/// <remarks>
/// The transport and the receiver of one buffer share the <see cref="MqttOptions"/> with the buffer's name, which can also be bound to configuration, and one health check:
/// <c>batchkit-mqtt</c>, or <c>batchkit-mqtt-name</c> for a named buffer.
/// </remarks>
public static class MqttBuilderExtensions
{
    private const string HealthCheckName = "batchkit-mqtt";
    private const int DefaultMaxBatchMessages = 1000;

    private static readonly TimeSpan DefaultLinger = TimeSpan.FromMilliseconds(8);

    /// <summary>Adds the route <see cref="LocalFirstRouter.RemoteRoute"/>: output for other nodes and for topics is sent over MQTT.</summary>
    /// <remarks>
    /// It changes two defaults of the buffer: <see cref="OutputBufferOptions.Linger"/> to 8 ms and <see cref="OutputBufferOptions.MaxBatchMessages"/> to 1000.
    /// Values that you set, including zero, take precedence. The transport is also registered as <see cref="IMqttPublisher"/>, keyed by the buffer's name; for the
    /// unnamed buffer also without a key.
    /// </remarks>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned.</param>
    /// <param name="configure">Configures the options; null leaves the defaults.</param>
    /// <param name="partitions">The number of partitions of the route; see <see cref="OutputRoute"/>. All share one connection.</param>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="partitions"/> is outside its range.</exception>
    /// <exception cref="InvalidOperationException">The buffer already has a route of that name.</exception>
    public static BatchKitBuilder UseMqtt(this BatchKitBuilder builder, Action<MqttOptions>? configure = null, int partitions = 1)
    {
        ArgumentNullException.ThrowIfNull(builder);
        AddShared(builder, configure);
        var (name, services) = (builder.Name, builder.Services);
        // Inserted first, so that all other configuration of this buffer overrides it, whatever the order of registration.
        services.Insert(0, ServiceDescriptor.Singleton<IConfigureOptions<OutputBufferOptions>>(new ConfigureNamedOptions<OutputBufferOptions>(name, SetDefaults)));
        KeyedServices.Add(services, name, CreateTransport);
        KeyedServices.AddAs<IMqttPublisher, MqttTransport>(services, name);
        return builder.AddRoute(LocalFirstRouter.RemoteRoute, provider => KeyedServices.GetTransport<MqttTransport>(provider, builder.Services, builder.Name), partitions);
    }

    /// <inheritdoc cref="UseMqtt(BatchKitBuilder, Action{MqttOptions}, int)"/>
    /// <remarks><inheritdoc cref="ReceiveFromMqtt(BatchKitBuilder, Func{IServiceProvider, IBatchTransport}, IConfiguration, Action{MqttOptions})" path="/remarks"/></remarks>
    public static BatchKitBuilder UseMqtt(this BatchKitBuilder builder, IConfiguration section, Action<MqttOptions>? configure = null, int partitions = 1)
    {
        AdapterServices.AddSection(builder, section, new MqttOptionsValidator(), MqttOptions.Read);
        return builder.UseMqtt(configure, partitions);
    }

    /// <summary>Passes messages that arrive over MQTT to a handler, in a scope of the services for each batch, from the host's start to its stop.</summary>
    /// <remarks>
    /// A batch contains the messages of one read from the connection. A message's <see cref="ReceivedMessage.Handle"/> has the topic as its name. Its header has the content type, response topic
    /// (<see cref="MessageHeader.ReplyTo"/>), correlation data, retain flag and user properties; a message with none of these has no header. The buffer's codec reads typed messages. MQTT has no field for a message's type, so use a topic for each type.
    /// </remarks>
    /// <typeparam name="THandler">The handler; it is registered as a scoped service unless the services have it.</typeparam>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned. It needs no route.</param>
    /// <param name="configure">Configures the options; null leaves the defaults.</param>
    /// <exception cref="InvalidOperationException">The buffer receives from MQTT already.</exception>
    public static BatchKitBuilder ReceiveFromMqtt<[DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>(
        this BatchKitBuilder builder, Action<MqttOptions>? configure = null)
        where THandler : class, IMessageHandler
    {
        ArgumentNullException.ThrowIfNull(builder);
        return builder.ReceiveFromMqtt(builder.AddHandler<THandler>(), configure);
    }

    /// <summary>Receives the messages of <see cref="MqttOptions.Subscriptions"/> over MQTT, from the host's start to its stop. In envelope mode it receives the frames for this node instead,
    /// and leases the node's number (<see cref="NodeNumber"/>).</summary>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned.</param>
    /// <param name="next">Returns the transport that gets the batches: the one to this node's connections, or your own.</param>
    /// <param name="configure">Configures the options; null leaves the defaults.</param>
    /// <exception cref="InvalidOperationException">The buffer receives from MQTT already.</exception>
    public static BatchKitBuilder ReceiveFromMqtt(
        this BatchKitBuilder builder, Func<IServiceProvider, IBatchTransport> next, Action<MqttOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ArgumentNullException.ThrowIfNull(next);
        AdapterServices.ThrowIfReceiving<MqttReceiver>(builder, "MQTT");
        AddShared(builder, configure);
        builder.LeaseNode();
        builder.BeforeHostedServices(services => services.GetRequiredKeyedService<MqttReceiver>(builder.Name).LeaseAsync);
        return AdapterServices.AddReceiver(builder, services => CreateReceiver(services, builder, next));
    }

    /// <inheritdoc cref="ReceiveFromMqtt(BatchKitBuilder, Func{IServiceProvider, IBatchTransport}, Action{MqttOptions})"/>
    /// <remarks>
    /// The keys of the section are the names of <see cref="MqttOptions"/>' properties; certificates, callbacks and a will can't be in a section. It is read once, when the options are first needed; errors
    /// name it. <paramref name="configure"/> runs after that.
    /// </remarks>
    public static BatchKitBuilder ReceiveFromMqtt(
        this BatchKitBuilder builder, Func<IServiceProvider, IBatchTransport> next, IConfiguration section, Action<MqttOptions>? configure = null)
    {
        AdapterServices.AddSection(builder, section, new MqttOptionsValidator(), MqttOptions.Read);
        return builder.ReceiveFromMqtt(next, configure);
    }

    private static void SetDefaults(OutputBufferOptions options)
    {
        options.Linger = DefaultLinger;
        options.MaxBatchMessages = DefaultMaxBatchMessages;
    }

    private static void AddShared(BatchKitBuilder builder, Action<MqttOptions>? configure)
    {
        var (name, services) = (builder.Name, builder.Services);
        OptionsRules.Add(services, name, new MqttOptionsValidator(), configure);
        if (KeyedServices.Contain<HealthCheck>(services, name))
            return;
        services.AddKeyedSingleton(name, static (provider, key) =>
            new HealthCheck(provider.GetKeyedService<MqttTransport>(key), provider.GetKeyedService<MqttReceiver>(key)));
        builder.BeforeHostedServices(provider => CreateStart(provider.GetKeyedService<MqttTransport>(name)));
        AdapterServices.AddHealthCheck(builder, HealthCheckName, provider => provider.GetRequiredKeyedService<HealthCheck>(name));
    }

    // With FailFast the transport connects before anything is sent.
    private static Func<CancellationToken, Task> CreateStart(MqttTransport? transport) =>
        cancellationToken => transport?.StartAsync(cancellationToken) ?? Task.CompletedTask;

    private static MqttTransport CreateTransport(IServiceProvider services, string name)
    {
        var options = services.GetRequiredService<IOptionsMonitor<MqttOptions>>().Get(name);
        var buffer = services.GetRequiredService<IOptionsMonitor<OutputBufferOptions>>().Get(name);
        PacketLimits.ThrowIfTooSmall(name, options, buffer);
        var signer = services.GetRequiredKeyedService<BatchKitBuilder>(name).CreateSigner(services);
        return new MqttTransport(options, services.GetService<TimeProvider>(), services.GetService<ILogger<MqttTransport>>(), signer,
            services.GetKeyedService<ConnectionMetrics>(name));
    }

    private static MqttReceiver CreateReceiver(IServiceProvider services, BatchKitBuilder builder, Func<IServiceProvider, IBatchTransport> next)
    {
        var options = services.GetRequiredService<IOptionsMonitor<MqttOptions>>().Get(builder.Name);
        var node = services.GetRequiredKeyedService<NodeNumber>(builder.Name);
        var timeProvider = services.GetService<TimeProvider>();
        var isEnvelope = options.EnvelopePrefix is not null;
        var receiver = builder.CreateReceiver(services, next, receiving =>
        {
            // Outside envelope mode the receiver numbers the batches itself: no number repeats, and there is no frame that a sender could have signed.
            receiving.FilterDuplicates = isEnvelope;
            receiving.Signer = isEnvelope ? receiving.Signer : null;
            (receiving.MessagingSystem, receiving.QueueName) = ("mqtt", options.EnvelopePrefix);
        });
        if (options.SharesConnection && services.GetKeyedService<MqttTransport>(builder.Name) is { } transport)
            return new MqttReceiver(transport, node, leasesNode: true, receiver, timeProvider, services.GetService<ILogger<MqttReceiver>>());
        return new MqttReceiver(options, node, leasesNode: true, receiver, timeProvider, services.GetService<ILogger<MqttReceiver>>(), services.GetKeyedService<ConnectionMetrics>(builder.Name));
    }

    /// <summary>Reports whether the buffer's transport can send and its receiver receives; either may be absent.</summary>
    private sealed class HealthCheck(MqttTransport? transport, MqttReceiver? receiver) : IHealthCheck
    {
        public async Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default)
        {
            var sending = transport is null ? null : await transport.FindFaultAsync(cancellationToken).ConfigureAwait(false);
            var observers = transport?.ObserverFaults.Description ?? receiver?.ObserverFaults.Description ?? transport?.CallbackFault ?? receiver?.CallbackFault ?? receiver?.LeaseFault;
            return AdapterServices.Evaluate(context, sending, receiver?.Fault, receiver?.GetStatistics(), observers);
        }
    }
}
