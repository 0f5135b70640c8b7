using System.Diagnostics.Metrics;
using BatchKit;
using BatchKit.Transports;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Options;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Registers output buffers.</summary>
public static class BatchKitServiceCollectionExtensions
{
    private const string HealthCheckName = "batchkit";

    /// <summary>Registers the unnamed output buffer, as <see cref="IOutputBuffer"/> and <see cref="OutputBuffer"/>.</summary>
    /// <inheritdoc cref="AddBatchKit(IServiceCollection, string, Action{OutputBufferOptions})"/>
    public static BatchKitBuilder AddBatchKit(this IServiceCollection services, Action<OutputBufferOptions>? configure = null) =>
        AddUnnamed(services, configuration: null, configure);

    /// <summary>Registers the unnamed output buffer with settings from configuration, as <see cref="IOutputBuffer"/> and <see cref="OutputBuffer"/>.</summary>
    /// <inheritdoc cref="AddBatchKit(IServiceCollection, string, IConfiguration, Action{OutputBufferOptions})"/>
    public static BatchKitBuilder AddBatchKit(this IServiceCollection services, IConfiguration configuration, Action<OutputBufferOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(configuration);
        return AddUnnamed(services, configuration, configure);
    }

    /// <summary>Registers a named output buffer, as <see cref="IOutputBuffer"/> and <see cref="OutputBuffer"/> keyed by its name.</summary>
    /// <remarks>
    /// The host creates the buffer when it starts, and fails to start when a setting is invalid. It drains the buffer when it stops. Hosted services stop in the reverse
    /// order of their registration, so register services that write after the buffer: it then drains when they have stopped. The health check
    /// <c>batchkit</c>, or <c>batchkit-name</c> for a named buffer, reports <see cref="OutputBuffer.GetHealth"/>.
    /// </remarks>
    /// <param name="services">The services.</param>
    /// <param name="name">The buffer's name; unique in the services.</param>
    /// <param name="configure">Sets the buffer's options.</param>
    /// <returns>A builder for the buffer's routes. A buffer needs at least one; a process that only receives, and has no clients of its own, needs none.</returns>
    /// <exception cref="InvalidOperationException">A buffer of that name is registered already.</exception>
    public static BatchKitBuilder AddBatchKit(this IServiceCollection services, string name, Action<OutputBufferOptions>? configure = null) =>
        AddNamed(services, name, configuration: null, configure);

    /// <summary>Registers a named output buffer with settings from configuration, as <see cref="IOutputBuffer"/> and <see cref="OutputBuffer"/> keyed by its name.</summary>
    /// <param name="services">The services.</param>
    /// <param name="name">The buffer's name; unique in the services.</param>
    /// <param name="configuration">
    /// The section whose keys are the names of <see cref="OutputBufferOptions"/>' properties, such as <c>Configuration.GetSection("BatchKit")</c>. It is read
    /// once, when the buffer is created; errors name it. A key that no options know is ignored, with a warning that names the nearest setting.
    /// </param>
    /// <param name="configure">Changes the options after they were read from the configuration.</param>
    /// <inheritdoc cref="AddBatchKit(IServiceCollection, string, Action{OutputBufferOptions})"/>
    public static BatchKitBuilder AddBatchKit(
        this IServiceCollection services, string name, IConfiguration configuration, Action<OutputBufferOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(configuration);
        return AddNamed(services, name, configuration, configure);
    }

    private static BatchKitBuilder AddUnnamed(IServiceCollection services, IConfiguration? configuration, Action<OutputBufferOptions>? configure)
    {
        var builder = AddNamed(services, Options.Options.DefaultName, configuration, configure);
        services.TryAddSingleton(provider => provider.GetRequiredKeyedService<OutputBuffer>(Options.Options.DefaultName));
        services.TryAddSingleton(provider => provider.GetRequiredKeyedService<NodeNumber>(Options.Options.DefaultName));
        services.TryAddSingleton<IOutputBuffer>(provider => provider.GetRequiredKeyedService<OutputBuffer>(Options.Options.DefaultName));
        return builder;
    }

    private static BatchKitBuilder AddNamed(
        IServiceCollection services, string name, IConfiguration? configuration, Action<OutputBufferOptions>? configure)
    {
        ArgumentNullException.ThrowIfNull(services);
        ArgumentNullException.ThrowIfNull(name);
        var builder = new BatchKitBuilder(name, services);
        // Health checks with names that differ only in case are one, and refuse each other later without a word of the buffers.
        if (services.Select(static service => service.IsKeyedService ? service.KeyedImplementationInstance as BatchKitBuilder : null).FirstOrDefault(other => string.Equals(other?.Name, name, StringComparison.OrdinalIgnoreCase)) is { } other)
        {
            var found = other.Name == name ? "is registered already" : $"differs from '{other.Name}' only in case";
            throw new InvalidOperationException($"{builder} {found}. Give each buffer a name of its own: AddBatchKit(\"name\").");
        }

        services.AddKeyedSingleton(name, builder);
        AddOptions(services, name, configuration, configure);
        var factory = new OutputBufferFactory(builder);
        services.AddKeyedSingleton(name, static (_, _) => new OwnOutput());
        services.AddKeyedSingleton(name, static (provider, key) => new ConnectionMetrics(provider.GetService<IMeterFactory>(), (string)key!, provider.GetService<TimeProvider>()));
        services.AddKeyedSingleton(name, static (provider, key) => CreateNode(provider, (string)key!));
        services.AddKeyedSingleton(name, (provider, _) => factory.Create(provider));
        services.AddKeyedSingleton<IOutputBuffer>(name, (provider, key) => provider.GetRequiredKeyedService<OutputBuffer>(key));
        services.AddSingleton<IHostedService>(provider => new OutputBufferHostedService(provider, builder));
        AdapterServices.AddHealthCheck(
            builder, HealthCheckName, provider => builder.IsReceiveOnly ? new ReceiveOnlyHealthCheck() : new OutputBufferHealthCheck(provider.GetRequiredKeyedService<OutputBuffer>(name)));
        return builder;
    }

    private static NodeNumber CreateNode(IServiceProvider services, string name) =>
        services.GetRequiredService<IOptionsMonitor<OutputBufferOptions>>().Get(name).Node is { } number
            ? new NodeNumber(number)
            : services.GetService<SharedNodeNumber>()?.Number ?? new NodeNumber(0);

    // Bound without a change token: the buffer reads its options once, and an invalid change would throw on the thread that reloads.
    private static void AddOptions(IServiceCollection services, string name, IConfiguration? configuration, Action<OutputBufferOptions>? configure) =>
        OptionsRules.Add(services, name, new OutputBufferOptionsValidator(), configure, configuration, OutputBufferOptions.Read);
}
