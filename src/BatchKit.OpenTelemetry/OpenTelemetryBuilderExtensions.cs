using OpenTelemetry.Metrics;
using OpenTelemetry.Trace;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Adds the instruments and spans of all BatchKit packages to OpenTelemetry.</summary>
public static class OpenTelemetryBuilderExtensions
{
    // The name of the meter and of the activity source of all packages.
    private const string Name = "BatchKit";

    /// <summary>Collects the instruments of buffers, receivers, connections to brokers and servers, and connections to clients: those of the meter <c>BatchKit</c>.</summary>
    /// <remarks>Histograms advise their bucket boundaries, so you need no view.</remarks>
    /// <param name="builder">The builder that <c>WithMetrics</c> passes.</param>
    /// <returns>The same builder.</returns>
    public static MeterProviderBuilder AddBatchKitInstrumentation(this MeterProviderBuilder builder)
    {
        ArgumentNullException.ThrowIfNull(builder);
        return builder.AddMeter(Name);
    }

    /// <summary>Collects the spans of sends and of deliveries of received frames: those of the activity source <c>BatchKit</c>.</summary>
    /// <remarks>A send that is sampled carries its trace over the broker, and its delivery is a child of it.</remarks>
    /// <param name="builder">The builder that <c>WithTracing</c> passes.</param>
    /// <returns>The same builder.</returns>
    public static TracerProviderBuilder AddBatchKitInstrumentation(this TracerProviderBuilder builder)
    {
        ArgumentNullException.ThrowIfNull(builder);
        return builder.AddSource(Name);
    }
}
