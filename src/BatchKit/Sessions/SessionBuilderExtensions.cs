using System.Diagnostics.Metrics;
using BatchKit;
using BatchKit.Diagnostics;
using BatchKit.Sessions;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Adds sessions to a buffer: destinations whose output waits while their client has no connection.</summary>
public static class SessionBuilderExtensions
{
    /// <summary>Adds the route <see cref="SessionTransport.RouteName"/>, and a <see cref="SessionRouter"/> before the buffer's router. Call it in the process that writes the output.</summary>
    /// <remarks>The <see cref="SessionTransport"/> is a keyed service with the buffer's name; for the unnamed buffer it is also registered without a key.</remarks>
    /// <param name="builder">What <c>AddBatchKit</c> returned.</param>
    /// <param name="configure">Sets the options.</param>
    public static BatchKitBuilder UseSessions(this BatchKitBuilder builder, Action<SessionOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        var (name, services) = (builder.Name, builder.Services);
        OptionsRules.Add(services, name, new SessionOptionsValidator(), configure);
        KeyedServices.Add(services, name, static (provider, key) => new SessionTransport(
            () => provider.GetRequiredKeyedService<IOutputBuffer>(key), provider.GetRequiredService<IOptionsMonitor<SessionOptions>>().Get(key), provider.GetRequiredKeyedService<NodeNumber>(key),
            provider.GetService<TimeProvider>(), provider.GetService<ILogger<SessionTransport>>(), BufferMeters.Of(provider.GetService<IMeterFactory>(), (string)key!)));
        return builder.AddOwnRoute(SessionTransport.RouteName, provider => KeyedServices.GetTransport<SessionTransport>(provider, builder.Services, builder.Name), static (provider, key, router, route) =>
        {
            var sessions = provider.GetRequiredKeyedService<SessionTransport>(key);
            return router is null ? new SessionRouter(sessions, route) : new SessionRouter(sessions, router);
        });
    }

    /// <inheritdoc cref="UseSessions(BatchKitBuilder, Action{SessionOptions})"/>
    /// <param name="builder">What <c>AddBatchKit</c> returned.</param>
    /// <param name="section">The section whose keys are the names of <see cref="SessionOptions"/>' properties. It is read once; errors name it.</param>
    /// <param name="configure">Changes the options after they were read.</param>
    public static BatchKitBuilder UseSessions(this BatchKitBuilder builder, IConfiguration section, Action<SessionOptions>? configure = null)
    {
        AdapterServices.AddSection(builder, section, new SessionOptionsValidator(), static (section, options) => section.Bind(options));
        return builder.UseSessions(configure);
    }
}
