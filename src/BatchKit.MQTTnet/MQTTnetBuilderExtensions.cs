using BatchKit;
using BatchKit.MQTTnet;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;
using MQTTnet;
using MQTTnet.Server;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Registers a transport over the application's MQTTnet client or server.</summary>
/// <remarks>The options have the buffer's name and can also be bound to configuration.</remarks>
public static class MQTTnetBuilderExtensions
{
    /// <summary>Adds the route <see cref="LocalFirstRouter.RemoteRoute"/>: output is sent over the application's client.</summary>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned.</param>
    /// <param name="client">Returns the client, which the application connects and disposes.</param>
    /// <param name="configure">Configures the options; null leaves the defaults.</param>
    /// <param name="partitions">The number of partitions of the route; see <see cref="OutputRoute"/>. All share the client.</param>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="partitions"/> is outside its range.</exception>
    /// <exception cref="InvalidOperationException">The buffer already has a route of that name.</exception>
    public static BatchKitBuilder UseMqttClient(
        this BatchKitBuilder builder, Func<IServiceProvider, IMqttClient> client, Action<MqttClientTransportOptions>? configure = null, int partitions = 1)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ArgumentNullException.ThrowIfNull(client);
        var (name, services) = (builder.Name, builder.Services);
        OptionsRules.Add(services, name, new MqttClientTransportOptionsValidator(), configure);
        KeyedServices.Add(services, name, (provider, _) => new MqttClientTransport(client(provider),
            provider.GetRequiredService<IOptionsMonitor<MqttClientTransportOptions>>().Get(name), provider.GetService<ILogger<MqttClientTransport>>()));
        return builder.AddRoute(LocalFirstRouter.RemoteRoute, provider => KeyedServices.GetTransport<MqttClientTransport>(provider, builder.Services, builder.Name), partitions);
    }

    /// <inheritdoc cref="UseMqttClient(BatchKitBuilder, Func{IServiceProvider, IMqttClient}, Action{MqttClientTransportOptions}, int)"/>
    /// <remarks>The keys of the section are the names of <see cref="MqttClientTransportOptions"/>' properties. It is read once, when the options are first needed; errors name it.</remarks>
    public static BatchKitBuilder UseMqttClient(
        this BatchKitBuilder builder, Func<IServiceProvider, IMqttClient> client, IConfiguration section, Action<MqttClientTransportOptions>? configure = null, int partitions = 1)
    {
        AdapterServices.AddSection(builder, section, new MqttClientTransportOptionsValidator(), static (from, options) => from.Bind(options));
        return builder.UseMqttClient(client, configure, partitions);
    }

    /// <summary>Adds the route <see cref="LocalFirstRouter.RemoteRoute"/>: output is injected into the application's server.</summary>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned.</param>
    /// <param name="server">Returns the server, which the application starts and disposes.</param>
    /// <param name="configure">Configures the options; null leaves the defaults.</param>
    /// <param name="partitions">The number of partitions of the route; see <see cref="OutputRoute"/>. Their sends take turns.</param>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="partitions"/> is outside its range.</exception>
    /// <exception cref="InvalidOperationException">The buffer already has a route of that name.</exception>
    public static BatchKitBuilder UseMqttServer(
        this BatchKitBuilder builder, Func<IServiceProvider, MqttServer> server, Action<MqttServerTransportOptions>? configure = null, int partitions = 1)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ArgumentNullException.ThrowIfNull(server);
        var (name, services) = (builder.Name, builder.Services);
        OptionsRules.Add(services, name, new MqttServerTransportOptionsValidator(), configure);
        KeyedServices.Add(services, name, (provider, _) => new MqttServerTransport(server(provider),
            provider.GetRequiredService<IOptionsMonitor<MqttServerTransportOptions>>().Get(name), provider.GetService<TimeProvider>(), provider.GetService<ILogger<MqttServerTransport>>()));
        return builder.AddRoute(LocalFirstRouter.RemoteRoute, provider => KeyedServices.GetTransport<MqttServerTransport>(provider, builder.Services, builder.Name), partitions);
    }

    /// <inheritdoc cref="UseMqttServer(BatchKitBuilder, Func{IServiceProvider, MqttServer}, Action{MqttServerTransportOptions}, int)"/>
    /// <remarks>The keys of the section are the names of <see cref="MqttServerTransportOptions"/>' properties. It is read once, when the options are first needed; errors name it.</remarks>
    public static BatchKitBuilder UseMqttServer(
        this BatchKitBuilder builder, Func<IServiceProvider, MqttServer> server, IConfiguration section, Action<MqttServerTransportOptions>? configure = null, int partitions = 1)
    {
        AdapterServices.AddSection(builder, section, new MqttServerTransportOptionsValidator(), static (from, options) => from.Bind(options));
        return builder.UseMqttServer(server, configure, partitions);
    }
}
