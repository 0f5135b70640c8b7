using BatchKit.HostWorker;
using BatchKit.Testing;
using BatchKit.TestServers.HostWorker;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace BatchKit.IntegrationTests.Stops;

/// <summary>Hosts on a path over a broker, in the process of the tests.</summary>
internal static class PathHost
{
    /// <summary>Starts the host of a node that receives, and waits until it does. With <paramref name="writesFor"/> it sends as well.</summary>
    public static async Task<IHost> StartReceiverAsync(BrokerPath path, int node, IBatchTransport next, int? writesFor = null)
    {
        var host = Build(services =>
        {
            var buffer = services.AddBatchKit(options => options.Node = node).ReceiveFrom(path, node, _ => next);
            if (writesFor is { } far)
                buffer.SendTo(path, far);
        });
        await StartAsync(host);
        return host;
    }

    public static IHost Build(Action<IServiceCollection> configure)
    {
        var application = Host.CreateEmptyApplicationBuilder(settings: null);
        application.Services.AddLogging(logging => logging.SetMinimumLevel(LogLevel.Warning));
        configure(application.Services);
        return application.Build();
    }

    /// <summary>Starts a host, and waits until it is healthy: until then it may not receive.</summary>
    public static async Task StartAsync(IHost host)
    {
        await host.StartAsync().WithinDeadline();
        await Until.TrueAsync(async () => (await host.Services.GetRequiredService<HealthCheckService>().CheckHealthAsync()).Status == HealthStatus.Healthy);
    }

    /// <summary>Writes lines for a new connection of a node, stops the host when they have arrived, and checks that nothing else came.</summary>
    public static async Task AssertCarriesAndStopAsync(IHost host, int node, CollectingTransport arrived)
    {
        string[] lines = Some.Lines(3);
        var (output, handle) = (host.Services.GetRequiredService<OutputBuffer>(), Some.Connection(node));
        foreach (var line in lines)
            output.Write(handle, Some.Bytes(line));
        await output.FlushAsync().WithinDeadline();
        await arrived.WaitForMessagesAsync(lines.Length);

        await StopAsync(host);
        Assert.Equal(lines, arrived.TextsFor(handle));
        Assert.Equal(lines.Length, arrived.MessageCount);
    }

    public static async Task StopAsync(IHost host)
    {
        await host.StopAsync().WithinDeadline();
        await ((IAsyncDisposable)host).DisposeAsync();
    }
}
