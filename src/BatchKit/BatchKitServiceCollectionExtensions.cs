using BatchKit;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Options;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Registers output buffers.</summary>
public static class BatchKitServiceCollectionExtensions
{
    private const string HealthCheckName = "batchkit";

    /// <summary>Registers the unnamed output buffer, as <see cref="IOutputBuffer"/> and <see cref="OutputBuffer"/>.</summary>
    /// <inheritdoc cref="AddBatchKit(IServiceCollection, string, Action{OutputBufferOptions})"/>
    public static BatchKitBuilder AddBatchKit(this IServiceCollection services, Action<OutputBufferOptions>? configure = null)
    {
        var builder = services.AddBatchKit(Options.Options.DefaultName, configure);
        services.TryAddSingleton(provider => provider.GetRequiredKeyedService<OutputBuffer>(Options.Options.DefaultName));
        services.TryAddSingleton<IOutputBuffer>(provider => provider.GetRequiredKeyedService<OutputBuffer>(Options.Options.DefaultName));
        return builder;
    }

    /// <summary>Registers a named output buffer, as <see cref="IOutputBuffer"/> and <see cref="OutputBuffer"/> keyed by its name.</summary>
    /// <remarks>
    /// The host makes the buffer at its start, where wrong settings fail, and drains it at its stop. Hosted services stop in the reverse order
    /// of their registration: register those that write after the buffer, so that it drains when they have stopped. A health check
    /// <c>batchkit</c>, or <c>batchkit-name</c>, reports how the buffer is. Options can also be bound to configuration, by the buffer's name.
    /// </remarks>
    /// <param name="services">The services.</param>
    /// <param name="name">The buffer's name, once per collection.</param>
    /// <param name="configure">Sets its options.</param>
    /// <returns>What the buffer's routes are added to; at least one is needed.</returns>
    /// <exception cref="InvalidOperationException">There is a buffer of that name.</exception>
    public static BatchKitBuilder AddBatchKit(this IServiceCollection services, string name, Action<OutputBufferOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(services);
        ArgumentNullException.ThrowIfNull(name);
        var builder = new BatchKitBuilder(name, services);
        if (services.Any(service => service.IsKeyedService && service.KeyedImplementationInstance is BatchKitBuilder other && other.Name == name))
            throw new InvalidOperationException($"{builder} is registered already.");

        services.AddKeyedSingleton(name, builder);
        services.TryAddEnumerable(ServiceDescriptor.Singleton<IValidateOptions<OutputBufferOptions>, OutputBufferOptionsValidator>());
        services.AddOptions<OutputBufferOptions>(name).Configure(configure ?? (static _ => { })).ValidateOnStart();

        var factory = new OutputBufferFactory(builder);
        services.AddKeyedSingleton(name, (provider, _) => factory.Make(provider));
        services.AddKeyedSingleton<IOutputBuffer>(name, (provider, key) => provider.GetRequiredKeyedService<OutputBuffer>(key));
        services.AddSingleton<IHostedService>(provider => new OutputBufferHostedService(provider, name));
        services.AddHealthChecks().Add(new HealthCheckRegistration(
            name.Length == 0 ? HealthCheckName : $"{HealthCheckName}-{name}",
            provider => new OutputBufferHealthCheck(provider.GetRequiredKeyedService<OutputBuffer>(name)),
            failureStatus: null, tags: [HealthCheckName]));
        return builder;
    }
}
