using BatchKit;
using BatchKit.MQTTnet;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;
using MQTTnet;
using MQTTnet.Server;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Sends a buffer's output over the MQTTnet client, or into the MQTTnet server, of the application.</summary>
/// <remarks>The options are named like the buffer and can be bound to configuration too.</remarks>
public static class MQTTnetBuilderExtensions
{
    /// <summary>Adds the route <see cref="LocalFirstRouter.RemoteRoute"/>: output leaves over the application's client.</summary>
    /// <param name="builder">What <c>AddBatchKit</c> returned.</param>
    /// <param name="client">Finds the client, which the application connects and disposes.</param>
    /// <param name="configure">Sets the options.</param>
    /// <param name="partitions">Ordered lanes; see <see cref="OutputRoute"/>.</param>
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

    /// <summary>Adds the route <see cref="LocalFirstRouter.RemoteRoute"/>: output goes into the application's server.</summary>
    /// <param name="builder">What <c>AddBatchKit</c> returned.</param>
    /// <param name="server">Finds the server, which the application starts and disposes.</param>
    /// <param name="configure">Sets the options.</param>
    /// <param name="partitions">Ordered lanes; see <see cref="OutputRoute"/>. They take turns at the server.</param>
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
