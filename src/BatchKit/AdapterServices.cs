using System.Collections.Concurrent;
using System.Diagnostics.CodeAnalysis;
using BatchKit.Transports;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Options;

namespace BatchKit;

/// <summary>Registers what each adapter has: options from a section, one receiver for a buffer, health.</summary>
internal static class AdapterServices
{
    private const DynamicallyAccessedMemberTypes Kept = DynamicallyAccessedMemberTypes.PublicParameterlessConstructor | DynamicallyAccessedMemberTypes.PublicProperties;

    /// <summary>Reads the options of the buffer's name from a section; see <see cref="OptionsRules.Add"/>.</summary>
    public static void AddSection<[DynamicallyAccessedMembers(Kept)] TOptions>(
        BatchKitBuilder builder, IConfiguration section, IValidateOptions<TOptions> rules, Action<IConfiguration, TOptions> bind)
        where TOptions : class
    {
        ArgumentNullException.ThrowIfNull(builder);
        ArgumentNullException.ThrowIfNull(section);
        OptionsRules.Add(builder.Services, builder.Name, rules, configure: null, section, bind);
    }

    /// <summary>Refuses a buffer's second receiver from the same broker.</summary>
    public static void ThrowIfReceiving<TReceiver>(BatchKitBuilder builder, string broker)
    {
        if (KeyedServices.Contain<TReceiver>(builder.Services, builder.Name))
            throw new InvalidOperationException($"{builder} receives from {broker} already. Use one handler for everything, or receive with a buffer of another name: AddBatchKit(name).");
    }

    /// <summary>Registers the buffer's receiver; the host starts and stops it, or what stands for it.</summary>
    public static BatchKitBuilder AddReceiver<TReceiver>(
        BatchKitBuilder builder, Func<IServiceProvider, TReceiver> create, Func<IServiceProvider, TReceiver, IHostedService>? host = null)
        where TReceiver : class, IHostedService
    {
        builder.Services.TryAddSingleton<ReceivedPlaces>();
        KeyedServices.Add(builder.Services, builder.Name, (services, _) => create(services));
        builder.Services.AddSingleton<IHostedService>(services =>
        {
            var receiver = services.GetRequiredKeyedService<TReceiver>(builder.Name);
            return new HostedPart(host?.Invoke(services, receiver) ?? receiver, services);
        });
        return builder.AllowNoRoute();
    }

    /// <summary>Refuses a receiver that would get what is for another buffer of the container.</summary>
    /// <param name="services">The services that the receiver is created from.</param>
    /// <param name="builder">Its buffer.</param>
    /// <param name="server">The server that it receives from.</param>
    /// <param name="prefix">The prefix of the names there.</param>
    /// <exception cref="InvalidOperationException">A buffer of the same node receives from there.</exception>
    public static void ThrowIfShared(IServiceProvider services, BatchKitBuilder builder, string server, string prefix)
    {
        var node = services.GetRequiredService<IOptionsMonitor<OutputBufferOptions>>().Get(builder.Name).Node;
        var other = services.GetRequiredService<ReceivedPlaces>().GetOrAdd((server, prefix, node), builder);
        if (other != builder)
            throw new InvalidOperationException($"{builder} would get another buffer's output. {other} receives from {server} with the Prefix '{prefix}' too. Give each a Prefix of its own.");
    }

    /// <summary>Registers a health check; that of a named buffer ends in the buffer's name.</summary>
    /// <exception cref="InvalidOperationException">Another check has the name.</exception>
    public static void AddHealthCheck(BatchKitBuilder builder, string checkName, Func<IServiceProvider, IHealthCheck> create) =>
        AddHealthCheck(builder.Services, builder.Name.Length == 0 ? checkName : $"{checkName}-{builder.Name}", $"the output buffer '{builder.Name}'", create);

    /// <summary>Registers the health check of a buffer or a queue. Names that differ only in case are one.</summary>
    /// <exception cref="InvalidOperationException">Another owner's check has the name.</exception>
    public static void AddHealthCheck(IServiceCollection services, string name, string owner, Func<IServiceProvider, IHealthCheck> create)
    {
        // Each package has a copy of this type, so that what they tell each other is of a common one.
        var key = $"health check {name}";
        if (services.FirstOrDefault(service => service.IsKeyedService && string.Equals(service.ServiceKey as string, key, StringComparison.OrdinalIgnoreCase))?.KeyedImplementationInstance is string other && other != owner)
            throw new InvalidOperationException($"The health check '{name}' would be that of {other} and of {owner}. Give one of them another name.");
        services.AddKeyedSingleton<object>(key, owner);
        services.AddHealthChecks().Add(new HealthCheckRegistration(name, create, failureStatus: null, tags: ["batchkit"]));
    }

    /// <summary>Evaluates what a buffer's transport and receiver report, either of which may be absent; see <see cref="BrokerHealth.Evaluate"/>.</summary>
    public static HealthCheckResult Evaluate(HealthCheckContext context, string? sending, string? receiving, BatchReceiverStatistics? receiver, string? observers)
    {
        var statistics = receiver ?? default;
        observers ??= statistics.ObserverFaults == 0 ? null : $"Loggers, listeners or callbacks of the receiver threw {statistics.ObserverFaults} times.";
        return BrokerHealth.Evaluate(context.Registration.FailureStatus, sending, receiving, statistics.ConsecutiveFailures, observers);
    }
}

/// <summary>What the host starts and stops, and whose start may wait for a server.</summary>
internal sealed class HostedPart(IHostedService part, IServiceProvider services) : IHostedService
{
    public Task StartAsync(CancellationToken cancellationToken) => StartAsync(part.StartAsync, services, cancellationToken);

    public Task StopAsync(CancellationToken cancellationToken) => part.StopAsync(cancellationToken);

    /// <summary>Waits for a part of the host's start. When the host is stopped meanwhile, for example by Ctrl-C while the server is away, the wait ends without an error: the process would end with its stack trace.</summary>
    public static async Task StartAsync(Func<CancellationToken, Task> start, IServiceProvider services, CancellationToken cancellationToken)
    {
        try
        {
            await start(cancellationToken).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (services.GetService<IHostApplicationLifetime>() is { ApplicationStopping.IsCancellationRequested: true })
        {
            // The stop follows.
        }
    }
}

/// <summary>Where the buffers of a container receive from: server, prefix and node.</summary>
internal sealed class ReceivedPlaces : ConcurrentDictionary<(string Server, string Prefix, int? Node), BatchKitBuilder>;

/// <summary>What a container owns, and may have to dispose synchronously. Its <c>Dispose</c> does what its <c>DisposeAsync</c> does, and blocks its caller meanwhile; prefer the latter.</summary>
/// <remarks>A container that is disposed synchronously throws for a service that has no <c>Dispose</c>, and leaves the services that it would dispose after it.</remarks>
internal interface IBlockingDisposable : IAsyncDisposable, IDisposable
{
    void IDisposable.Dispose() => Dispose(this);

    /// <summary>Waits for the end of a service.</summary>
    public static void Dispose(IAsyncDisposable service)
    {
        // Each part continues on the pool, so its caller's thread may be blocked.
        service.DisposeAsync().AsTask().GetAwaiter().GetResult();
    }
}
