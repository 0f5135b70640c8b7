using System.Diagnostics.Metrics;
using BatchKit;
using BatchKit.Diagnostics;
using BatchKit.SignalR;
using BatchKit.SignalR.Hubs;
using BatchKit.Transports;
using Microsoft.AspNetCore.SignalR;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Batches what SignalR hubs send.</summary>
public static class SignalRBuilderExtensions
{
    /// <summary>Sends all that hubs send through an output buffer: what is sent within a scope of <see cref="IOutputBuffer"/> leaves as one write for each client.</summary>
    /// <remarks>
    /// <para>The clients are the buffer's local route, and the <see cref="SignalRTransport"/> is a singleton. For several servers add a backplane to the same buffer: any adapter's <c>UseX</c> and its <c>ReceiveFromX</c>
    /// with <c>services => services.GetRequiredService&lt;SignalRTransport&gt;()</c>. Call it instead of SignalR's own backplane.</para>
    /// <para>The buffer is the one that <c>AddBatchKit</c> has registered under the name; if none is, this registers it.</para>
    /// </remarks>
    /// <param name="signalR">What <c>AddSignalR</c> returned.</param>
    /// <param name="configure">Adds a backplane to the buffer; null for one server.</param>
    /// <param name="options">Changes the settings.</param>
    /// <param name="name">The buffer's name; that of the unnamed buffer by default.</param>
    /// <exception cref="InvalidOperationException">Hubs have a buffer already.</exception>
    public static ISignalRServerBuilder AddBatchKit(
        this ISignalRServerBuilder signalR, Action<BatchKitBuilder>? configure = null, Action<SignalROptions>? options = null, string name = "")
    {
        ArgumentNullException.ThrowIfNull(signalR);
        ArgumentNullException.ThrowIfNull(name);
        var services = signalR.Services;
        if (services.Any(static service => service.ServiceType == typeof(SignalRTransport)))
            throw new InvalidOperationException("Hubs have an output buffer already. Call AddBatchKit once on what AddSignalR returned.");
        var buffer = services.Select(service => service.IsKeyedService ? service.KeyedImplementationInstance as BatchKitBuilder : null).FirstOrDefault(other => other?.Name == name)
            ?? (name.Length == 0 ? services.AddBatchKit() : services.AddBatchKit(name));
        OptionsRules.Add(services, name, new SignalROptionsValidator(), options);
        services.AddSingleton(provider => new SignalRTransport(
            provider.GetRequiredService<IOptionsMonitor<SignalROptions>>().Get(name), provider.GetService<TimeProvider>(),
            provider.GetService<ILogger<SignalRTransport>>(), BufferMeters.Of(provider.GetService<IMeterFactory>(), name)));
        services.AddSingleton(provider => new HubBuffer(
            provider.GetRequiredKeyedService<OutputBuffer>(name), provider.GetRequiredKeyedService<NodeNumber>(name), buffer.HasRoute(LocalFirstRouter.RemoteRoute)));
        // AddSignalR has registered SignalR's own manager in the same way. The last one counts.
        services.AddSingleton(typeof(HubLifetimeManager<>), typeof(BufferedHubLifetime<>));
        buffer.UseLocal(static provider => provider.GetRequiredService<SignalRTransport>());
        configure?.Invoke(buffer);
        return signalR;
    }
}
