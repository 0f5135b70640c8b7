using System.Diagnostics.Metrics;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>The instruments of connections to RabbitMQ.</summary>
public sealed class RabbitMqMeterTests(RabbitMqFixture fixture)
{
    [Fact]
    public async Task The_instruments_show_each_connection_its_loss_and_its_return()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var prefix = Some.Name("test");
        using var host = new RabbitMqTestHost().Build(prefix, options => RabbitMqSome.Configure(options, server, proxy.Port, prefix));
        using var readings = new ConnectionReadings(host.Services.GetRequiredService<IMeterFactory>());
        await host.StartAsync().WithinDeadline();
        Assert.Equal(("Open", "Closed"), (readings.StateOf("receiver"), readings.StateOf("sender")));
        Assert.Equal(HealthStatus.Healthy, (await RabbitMqTestHost.CheckHealthAsync(host)).Status);
        Assert.Equal("Open", readings.StateOf("sender"));

        await readings.AssertOutageAsync(() =>
        {
            proxy.Stall();
            proxy.ResetAll();
        }, proxy.Resume, $"RabbitMQ at {server.Host}:{proxy.Port} (virtual host /)", "rabbitmq", down: ["receiver", "sender"], open: ["receiver"]);
        await host.StopAsync().WithinDeadline();
        Assert.Equal("Closed", readings.StateOf("receiver"));
    }

    [Fact]
    public async Task A_broker_that_can_not_be_reached_at_the_start_shows_as_down()
    {
        using var host = new RabbitMqTestHost().Build("test", options => options.Hosts = [$"127.0.0.1:{FreePort.Take(1)[0]}"]);
        using var readings = new ConnectionReadings(host.Services.GetRequiredService<IMeterFactory>());

        await host.StartAsync().WithinDeadline();

        Assert.Equal(("Down", 0), (readings.StateOf("receiver"), readings.CountOf("receiver", "Lost")));
        await host.StopAsync().WithinDeadline();
    }
}
