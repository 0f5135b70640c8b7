using BatchKit;
using BatchKit.MQTTnet;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;
using MQTTnet;
using MQTTnet.Server;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Registers the transport to the application's MQTTnet client or server.</summary>
/// <remarks>The options have the buffer's name and can also be bound to configuration.</remarks>
public static class MQTTnetBuilderExtensions
{
    /// <summary>Adds the route <see cref="LocalFirstRouter.RemoteRoute"/>: output is sent over the application's client.</summary>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned.</param>
    /// <param name="client">Returns the client, which the application connects and disposes.</param>
    /// <param name="configure">Configures the options; null leaves the defaults.</param>
    /// <param name="partitions">The number of partitions; see <see cref="OutputRoute"/>.</param>
    public static BatchKitBuilder UseMqttClient(
        this BatchKitBuilder builder, Func<IServiceProvider, IMqttClient> client, Action<MqttClientTransportOptions>? configure = null, int partitions = 1)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ArgumentNullException.ThrowIfNull(client);
        var (name, services) = (builder.Name, builder.Services);
        if (configure is not null)
            services.Configure(name, configure);
        services.TryAddEnumerable(ServiceDescriptor.Singleton<IValidateOptions<MqttClientTransportOptions>, MqttClientTransportOptionsValidator>());
        services.AddOptions<MqttClientTransportOptions>(name).ValidateOnStart();
        services.AddKeyedSingleton(name, (provider, _) => new MqttClientTransport(client(provider),
            provider.GetRequiredService<IOptionsMonitor<MqttClientTransportOptions>>().Get(name), provider.GetService<ILogger<MqttClientTransport>>()));
        return builder.AddRoute(LocalFirstRouter.RemoteRoute, provider => provider.GetRequiredKeyedService<MqttClientTransport>(name), partitions);
    }

    /// <summary>Adds the route <see cref="LocalFirstRouter.RemoteRoute"/>: output is injected into the application's server.</summary>
    /// <param name="builder">The builder that <c>AddBatchKit</c> returned.</param>
    /// <param name="server">Returns the server, which the application starts and disposes.</param>
    /// <param name="configure">Configures the options; null leaves the defaults.</param>
    /// <param name="partitions">The number of partitions; see <see cref="OutputRoute"/>. They take turns at the server.</param>
    public static BatchKitBuilder UseMqttServer(
        this BatchKitBuilder builder, Func<IServiceProvider, MqttServer> server, Action<MqttServerTransportOptions>? configure = null, int partitions = 1)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ArgumentNullException.ThrowIfNull(server);
        var (name, services) = (builder.Name, builder.Services);
        if (configure is not null)
            services.Configure(name, configure);
        services.TryAddEnumerable(ServiceDescriptor.Singleton<IValidateOptions<MqttServerTransportOptions>, MqttServerTransportOptionsValidator>());
        services.AddOptions<MqttServerTransportOptions>(name).ValidateOnStart();
        services.AddKeyedSingleton(name, (provider, _) => new MqttServerTransport(server(provider),
            provider.GetRequiredService<IOptionsMonitor<MqttServerTransportOptions>>().Get(name), provider.GetService<TimeProvider>(), provider.GetService<ILogger<MqttServerTransport>>()));
        return builder.AddRoute(LocalFirstRouter.RemoteRoute, provider => provider.GetRequiredKeyedService<MqttServerTransport>(name), partitions);
    }
}
