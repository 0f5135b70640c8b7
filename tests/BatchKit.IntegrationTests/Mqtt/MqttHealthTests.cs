using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Certificates;
using BatchKit.TestServers.Mosquitto;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>What a host says of a broker that does not let it in.</summary>
public sealed class MqttHealthTests : IDisposable
{
    private const string Secret = "s3cr3t-of-this-test";

    private readonly LogCollector _log = new();

    public void Dispose() => _log.Dispose();

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task A_wrong_password_is_named_for_both_directions_and_is_in_no_log_or_health(MqttVersion version)
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        await using var server = await MosquittoServer.StartOwnAsync(new MosquittoServerOptions { UserName = "somebody", Password = "right" });
        using var host = await StartAsync(options =>
        {
            options.Server = server.Address;
            options.Version = version;
            (options.UserName, options.Password) = ("somebody", Secret);
        });

        var health = await CheckAsync(host);
        await host.StopAsync().WithinDeadline();

        Assert.Equal(HealthStatus.Unhealthy, health.Status);
        Assert.StartsWith("Neither sends nor receives. The broker at mqtt://127.0.0.1", health.Description, StringComparison.Ordinal);
        Assert.Contains("refused the connection: NotAuthorized", health.Description, StringComparison.Ordinal);
        Assert.DoesNotContain(Secret, $"{health.Description}{health.Exception}{_log.Text}", StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_certificate_that_is_not_trusted_is_named()
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        using var certificate = TestAuthority.MakeSelfSigned();
        await using var server = await MosquittoServer.StartOwnAsync(new MosquittoServerOptions { Certificate = certificate });
        using var host = await StartAsync(options => options.Server = new Uri($"mqtts://127.0.0.1:{server.TlsPort}"));

        var health = await CheckAsync(host);
        await host.StopAsync().WithinDeadline();

        Assert.Equal(HealthStatus.Unhealthy, health.Status);
        Assert.Contains("its certificate is self-signed", health.Description, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_broker_that_comes_back_is_well_again()
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        await using var server = await MosquittoServer.StartOwnAsync();
        await server.StopAsync();
        using var host = await StartAsync(options => options.Server = server.Address);

        var down = await CheckAsync(host);
        await server.StartAsync();
        await Until.TrueAsync(async () => (await CheckAsync(host)).Status == HealthStatus.Healthy);
        await host.StopAsync().WithinDeadline();

        Assert.Equal(HealthStatus.Unhealthy, down.Status);
        Assert.Contains("nothing listens there", down.Description, StringComparison.Ordinal);
    }

    private static async Task<HealthReportEntry> CheckAsync(IHost host) =>
        (await host.Services.GetRequiredService<HealthCheckService>().CheckHealthAsync().WithinDeadline()).Entries["batchkit-mqtt"];

    private async Task<IHost> StartAsync(Action<MqttOptions> configure)
    {
        var builder = Host.CreateApplicationBuilder();
        builder.Logging.ClearProviders().AddProvider(_log).SetMinimumLevel(LogLevel.Trace);
        builder.Services.AddBatchKit(static options => options.Node = 1).UseMqtt(options =>
        {
            options.ClientId = Some.Name("health");
            options.Subscriptions = [new MqttSubscription { Filter = "health/#" }];
            configure(options);
        }).ReceiveFromMqtt(static _ => new CollectingTransport());
        var host = builder.Build();
        await host.StartAsync().WithinDeadline();
        return host;
    }
}
