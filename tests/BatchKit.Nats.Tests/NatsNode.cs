using BatchKit.Testing;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using NATS.Client.Core;

namespace BatchKit.Nats.Tests;

/// <summary>A host that sends over NATS and receives into memory.</summary>
internal sealed class NatsNode : IAsyncDisposable
{
    private readonly IHost _host;

    private NatsNode(IHost host) => _host = host;

    public static OutputHandle Room { get; } = OutputHandle.Named("room");

    public OutputBuffer Output => _host.Services.GetRequiredService<OutputBuffer>();

    public int Number => _host.Services.GetRequiredService<NodeNumber>().Value;

    public OutputHandle Connection => OutputHandle.Connection(Number, 1);

    public CollectingTransport Arrived => _host.Services.GetRequiredService<CollectingTransport>();

    /// <summary>What it hands batches to; they arrive unless the test stalls it.</summary>
    public ScriptedTransport NextHop => _host.Services.GetRequiredService<ScriptedTransport>();

    public IServiceProvider Services => _host.Services;

    /// <summary>Starts a node.</summary>
    /// <param name="options">The settings.</param>
    /// <param name="node">Its number; one is leased when null.</param>
    /// <param name="connection">The application's connection; one of its own when null.</param>
    /// <param name="configure">Adds services, and changes other settings.</param>
    public static async Task<NatsNode> StartAsync(NatsOptions options, int? node = null, INatsConnection? connection = null, Action<IServiceCollection>? configure = null)
    {
        var builder = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        if (connection is not null)
            builder.Services.AddSingleton(connection);
        builder.Services.AddSingleton<CollectingTransport>();
        builder.Services.AddSingleton(static services => new ScriptedTransport(services.GetRequiredService<CollectingTransport>()));
        configure?.Invoke(builder.Services);
        builder.Services.AddBatchKit(buffer => buffer.Node = node)
            .UseNats(nats => Copy(options, nats))
            .ReceiveFromNats(static services => services.GetRequiredService<ScriptedTransport>());
        var started = new NatsNode(builder.Build());
        try
        {
            await started._host.StartAsync().WithinDeadline();
            return started;
        }
        catch
        {
            await started.DisposeAsync();
            throw;
        }
    }

    public async Task WriteAsync(OutputHandle handle, string text)
    {
        Output.Write(handle, text);
        await Output.FlushAsync(handle).WithinDeadline();
    }

    public async Task<HealthReportEntry> GetHealthAsync() =>
        (await Services.GetRequiredService<HealthCheckService>().CheckHealthAsync(static check => check.Name == "batchkit-nats")).Entries.Values.Single();

    /// <exception cref="TimeoutException">It is not healthy within the deadline of a test; the message says why.</exception>
    public async Task WaitUntilHealthyAsync()
    {
        var health = default(HealthReportEntry);
        try
        {
            await Until.TrueAsync(async () => (health = await GetHealthAsync()).Status == HealthStatus.Healthy);
        }
        catch (TimeoutException late)
        {
            throw new TimeoutException($"The node stays {health.Status}: {health.Description}", late);
        }
    }

    public async ValueTask DisposeAsync()
    {
        await _host.StopAsync().WithinDeadline();
        await ((IAsyncDisposable)_host).DisposeAsync();
    }

    private static void Copy(NatsOptions from, NatsOptions to)
    {
        foreach (var property in typeof(NatsOptions).GetProperties())
            property.SetValue(to, property.GetValue(from));
    }
}
