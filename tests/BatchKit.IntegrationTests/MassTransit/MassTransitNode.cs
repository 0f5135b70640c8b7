using BatchKit.MassTransit;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>One process with a buffer that sends and receives over MassTransit, as a host runs it.</summary>
internal sealed class MassTransitNode : IAsyncDisposable
{
    private readonly IHost _host;

    private MassTransitNode(IHost host, CollectingTransport received)
    {
        _host = host;
        Received = received;
        Output = host.Services.GetRequiredService<OutputBuffer>();
        Receiver = host.Services.GetRequiredKeyedService<MassTransitReceiver>(string.Empty);
        Transport = host.Services.GetRequiredKeyedService<MassTransitTransport>(string.Empty);
    }

    public CollectingTransport Received { get; }

    public OutputBuffer Output { get; }

    public MassTransitReceiver Receiver { get; }

    public MassTransitTransport Transport { get; }

    public IServiceProvider Services => _host.Services;

    /// <summary>Starts it; does not wait for the broker.</summary>
    public static async Task<MassTransitNode> StartAsync(int node, Action<MassTransitOptions> configure,
        Func<IBatchTransport, IBatchTransport>? wrap = null, Action<OutputBufferOptions>? configureOutput = null, Action<IServiceCollection>? addServices = null)
    {
        var received = new CollectingTransport();
        var next = wrap?.Invoke(received) ?? received;
        var builder = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        builder.Services.AddLogging(logging => logging.SetMinimumLevel(LogLevel.Warning));
        addServices?.Invoke(builder.Services);
        builder.Services.AddBatchKit(options =>
        {
            options.Node = node;
            options.MaxRetryDelay = TimeSpan.FromSeconds(1);
            configureOutput?.Invoke(options);
        })
            .UseMassTransit(configure)
            .ReceiveFromMassTransit(_ => next);
        var host = builder.Build();
        await host.StartAsync().WithinDeadline();
        return new MassTransitNode(host, received);
    }

    /// <summary>Starts it and waits until it receives.</summary>
    public static async Task<MassTransitNode> StartReadyAsync(int node, Action<MassTransitOptions> configure, Func<IBatchTransport, IBatchTransport>? wrap = null,
        Action<OutputBufferOptions>? configureOutput = null, Action<IServiceCollection>? addServices = null)
    {
        var started = await StartAsync(node, configure, wrap, configureOutput, addServices);
        await started.Receiver.WaitUntilReadyAsync().WithinDeadline();
        return started;
    }

    public async Task<HealthReportEntry> CheckHealthAsync()
    {
        var report = await _host.Services.GetRequiredService<HealthCheckService>().CheckHealthAsync();
        return report.Entries["batchkit-masstransit"];
    }

    /// <summary>Waits until the health check says this: a bus says that it has started a moment after it receives.</summary>
    public async Task WaitForHealthAsync(HealthStatus status, string text = "")
    {
        var health = default(HealthReportEntry);
        try
        {
            await Until.TrueAsync(async () => (health = await CheckHealthAsync()).Status == status && health.Description!.Contains(text, StringComparison.OrdinalIgnoreCase));
        }
        catch (TimeoutException)
        {
            Assert.Fail($"It is not {status} with '{text}', but {health.Status}: {health.Description} The receiver: {Receiver.Fault} {health.Exception}");
        }
    }

    public Task StopAsync() => _host.StopAsync();

    public async ValueTask DisposeAsync()
    {
        await _host.StopAsync();
        await ((IAsyncDisposable)_host).DisposeAsync();
    }
}
