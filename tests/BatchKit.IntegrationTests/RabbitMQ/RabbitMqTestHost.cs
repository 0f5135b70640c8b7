using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.RabbitMQ;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>Makes one test's hosts, and keeps what they log and what arrives there.</summary>
internal sealed class RabbitMqTestHost
{
    private const string HealthCheck = "batchkit-rabbitmq";

    public LogCollector Log { get; } = new();

    public CollectingTransport Arrived { get; } = new();

    public static async Task<HealthReportEntry> CheckHealthAsync(IHost host) =>
        (await host.Services.GetRequiredService<HealthCheckService>().CheckHealthAsync()).Entries[HealthCheck];

    public static async Task<HealthReportEntry> WaitForHealthAsync(IHost host, HealthStatus status)
    {
        HealthReportEntry health = default;
        await Until.TrueAsync(async () => (health = await CheckHealthAsync(host)).Status == status);
        return health;
    }

    /// <summary>Starts a host whose buffer sends over the broker and whose receiver hands on to <see cref="Arrived"/>, unless said otherwise.</summary>
    public async Task<IHost> StartAsync(RabbitMqServer server, string prefix, int node = 1, Action<BatchKitBuilder>? configure = null,
        IBatchTransport? receives = null, Action<RabbitMqOptions>? rabbit = null)
    {
        var host = Build(prefix, options =>
        {
            RabbitMqSome.Configure(options, server, server.Port, prefix);
            rabbit?.Invoke(options);
        }, output: buffer => buffer.Node = node, builder: configure, receives: receives);
        await host.StartAsync().WithinDeadline();
        return host;
    }

    public IHost Build(string prefix, Action<RabbitMqOptions> rabbit, Action<OutputBufferOptions>? output = null,
        Action<BatchKitBuilder>? builder = null, IBatchTransport? receives = null)
    {
        var host = Host.CreateApplicationBuilder();
        host.Logging.ClearProviders().AddProvider(Log).SetMinimumLevel(LogLevel.Trace);
        var batchKit = host.Services.AddBatchKit(options =>
        {
            options.Node = 1;
            options.MaxRetryDelay = TimeSpan.FromMilliseconds(500);
            output?.Invoke(options);
        });
        builder?.Invoke(batchKit);
        batchKit.UseRabbitMq(options =>
        {
            options.Prefix = prefix;
            rabbit(options);
        }).ReceiveFromRabbitMq(_ => receives ?? Arrived);
        return host.Build();
    }
}
