using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>Makes one test's hosts, and keeps what they log and what arrives there.</summary>
internal sealed class MqttTestHost
{
    private const string HealthCheck = "batchkit-mqtt";

    public LogCollector Log { get; } = new();

    public CollectingTransport Arrived { get; } = new();

    public static async Task<HealthReportEntry> WaitForHealthAsync(IHost host, HealthStatus status, string says = "")
    {
        HealthReportEntry health = default;
        await Until.TrueAsync(async () =>
        {
            health = (await host.Services.GetRequiredService<HealthCheckService>().CheckHealthAsync()).Entries[HealthCheck];
            return health.Status == status && (health.Description ?? "").Contains(says, StringComparison.Ordinal);
        });
        return health;
    }

    /// <summary>Starts a host whose buffer sends frames over the broker and whose receiver hands on to <see cref="Arrived"/>, unless said otherwise.</summary>
    public async Task<IHost> StartAsync(MosquittoServer server, string? prefix, int node = 1, Action<BatchKitBuilder>? configure = null,
        IBatchTransport? receives = null, Action<MqttOptions>? mqtt = null)
    {
        var host = Build(server.Address, options =>
        {
            options.EnvelopePrefix = prefix;
            mqtt?.Invoke(options);
        }, output: buffer => buffer.Node = node, builder: configure, receives: receives);
        await host.StartAsync().WithinDeadline();
        return host;
    }

    public IHost Build(Uri address, Action<MqttOptions> mqtt, Action<OutputBufferOptions>? output = null,
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
        batchKit.UseMqtt(options =>
        {
            MqttSome.Configure(options, address);
            mqtt(options);
        }).ReceiveFromMqtt(_ => receives ?? Arrived);
        return host.Build();
    }
}
