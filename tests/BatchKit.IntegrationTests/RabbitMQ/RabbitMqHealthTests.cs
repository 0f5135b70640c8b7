using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.RabbitMQ;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Options;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>What a host says of wrong settings and of a broker that is down.</summary>
public sealed class RabbitMqHealthTests(RabbitMqFixture fixture, OwnRabbitMqFixture own) : IClassFixture<OwnRabbitMqFixture>
{
    private readonly RabbitMqTestHost _hosts = new();

    [Fact]
    public async Task Health_tells_of_a_next_transport_that_fails()
    {
        var server = await fixture.GetAsync();
        var failing = new ScriptedTransport(_hosts.Arrived).Fail(sends: 1000);
        using var host = await _hosts.StartAsync(server, Some.Name("test"), receives: failing);
        var output = host.Services.GetRequiredService<IOutputBuffer>();

        output.Write(Some.Connection(node: 1), "a"u8);
        var health = await RabbitMqTestHost.WaitForHealthAsync(host, HealthStatus.Degraded);

        Assert.Contains("consecutive times", health.Description, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_host_starts_while_the_broker_is_down_says_why_and_sends_when_it_is_up()
    {
        var server = await own.GetAsync();
        await server.StopAsync();
        using var host = await _hosts.StartAsync(server, Some.Name("test"), node: 1);
        var output = host.Services.GetRequiredService<IOutputBuffer>();

        foreach (var line in Some.Lines(100))
            output.Write(Some.Connection(node: 1), Some.Bytes(line));
        var down = await RabbitMqTestHost.CheckHealthAsync(host);
        var waiting = output.GetStatistics().PendingMessages;
        await server.StartAsync();
        await _hosts.Arrived.WaitForMessagesAsync(100);
        var up = await RabbitMqTestHost.WaitForHealthAsync(host, HealthStatus.Healthy);

        Assert.Equal(HealthStatus.Unhealthy, down.Status);
        Assert.Contains($"127.0.0.1:{server.Port}", down.Description, StringComparison.Ordinal);
        Assert.Equal(100, waiting);
        Assert.Equal(HealthStatus.Healthy, up.Status);
    }

    [Fact]
    public async Task A_wrong_password_is_named_by_health_and_is_in_no_log_or_error()
    {
        const string secret = "s3cr3t-of-this-test";
        var server = await fixture.GetAsync();
        using var host = await _hosts.StartAsync(server, Some.Name("test"), rabbit: rabbit => rabbit.Password = secret);
        var output = host.Services.GetRequiredService<IOutputBuffer>();
        output.Write(Some.Connection(node: 1), "a"u8);

        var health = await RabbitMqTestHost.CheckHealthAsync(host);
        var failure = await Assert.ThrowsAsync<IOException>(async () => await host.Services.GetRequiredKeyedService<RabbitMqTransport>(Options.DefaultName)
            .SendAsync(new[] { Some.Batch(Some.Connection(node: 1), Some.Producer(), 1, "b") }, CancellationToken.None));

        Assert.Equal(HealthStatus.Unhealthy, health.Status);
        Assert.Contains("refused the login", health.Description, StringComparison.Ordinal);
        Assert.DoesNotContain(secret, $"{health.Description}{failure}{_hosts.Log.Text}", StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("broker:0")]
    [InlineData("amqp://user:password@broker")]
    [InlineData("")]
    public async Task A_host_that_is_none_stops_the_start_and_is_not_repeated(string name)
    {
        using var host = _hosts.Build("test", rabbit => rabbit.Hosts = ["broker", name]);

        var failure = await Assert.ThrowsAsync<OptionsValidationException>(() => host.StartAsync());

        Assert.Contains("Hosts[1]", failure.Message, StringComparison.Ordinal);
        Assert.DoesNotContain("password@", failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_frame_limit_that_cannot_hold_a_batch_stops_the_start()
    {
        using var host = _hosts.Build("test", rabbit => rabbit.MaxFrameBytes = 50_000);

        var failure = await Assert.ThrowsAsync<OptionsValidationException>(() => host.StartAsync());

        Assert.Contains(nameof(RabbitMqOptions.MaxFrameBytes), failure.Message, StringComparison.Ordinal);
        Assert.Contains(nameof(OutputBufferOptions.MaxBatchBytes), failure.Message, StringComparison.Ordinal);
    }
}
