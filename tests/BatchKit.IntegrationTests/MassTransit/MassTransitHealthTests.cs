using BatchKit.Testing;
using MassTransit;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>What health says of the transport behind a receiver on a bus in memory.</summary>
public sealed class MassTransitHealthTests
{
    private static readonly TimeSpan StopTimeout = TimeSpan.FromMilliseconds(100);

    [Fact]
    public async Task Health_tells_of_a_next_transport_that_fails()
    {
        await using var node = await MassTransitNode.StartReadyAsync(1, static options => options.StopTimeout = StopTimeout, static next => new ScriptedTransport(next).Fail(sends: 1000));

        node.Output.Write(Some.Connection(1), "a"u8);

        await node.WaitForHealthAsync(HealthStatus.Degraded, "consecutive times");
    }

    [Fact]
    public async Task Health_tells_of_a_frame_that_the_next_transport_keeps()
    {
        var (clock, stuck) = (new ManualTimeProvider(), new StuckHop());
        await using var node = await MassTransitNode.StartReadyAsync(
            1, static options => options.StopTimeout = StopTimeout, _ => stuck, addServices: services => services.AddSingleton<TimeProvider>(clock));
        node.Output.Write(Some.Connection(1), "a"u8);
        await stuck.Entered.WithinDeadline();
        HealthReportEntry health;
        try
        {
            await node.WaitForHealthAsync(HealthStatus.Healthy, "Connected to ");
            health = await WaitUntilHeldAsync(node, clock);
        }
        finally
        {
            // The node would wait for it by a clock that stands still.
            stuck.Release();
        }

        await node.WaitForHealthAsync(HealthStatus.Healthy, "Connected to ");
        Assert.Equal(HealthStatus.Unhealthy, health.Status);
    }

    [Fact]
    public async Task Health_of_a_sender_tells_whether_the_applications_bus_has_started()
    {
        var bus = Bus.Factory.CreateUsingInMemory(static _ => { });
        var application = Host.CreateEmptyApplicationBuilder(settings: null);
        application.Services.AddLogging().AddBatchKit().UseMassTransit(options => options.Bus = _ => bus);
        using var host = application.Build();
        await host.StartAsync().WithinDeadline();
        var health = host.Services.GetRequiredService<HealthCheckService>();

        var before = await health.CheckHealthAsync();
        await bus.StartAsync().WithinDeadline();
        var after = await health.CheckHealthAsync();

        Assert.Contains("the application's bus", before.Entries["batchkit-masstransit"].Description, StringComparison.Ordinal);
        Assert.Equal((HealthStatus.Unhealthy, HealthStatus.Healthy), (before.Entries["batchkit-masstransit"].Status, after.Entries["batchkit-masstransit"].Status));
        await host.StopAsync().WithinDeadline();
        await bus.StopAsync().WithinDeadline();
    }

    // The limit is armed a moment after the transport has the frame.
    private static async Task<HealthReportEntry> WaitUntilHeldAsync(MassTransitNode node, ManualTimeProvider clock)
    {
        var health = default(HealthReportEntry);
        await Until.TrueAsync(async () =>
        {
            clock.Advance(TimeSpan.FromSeconds(5));
            health = await node.CheckHealthAsync();
            return health.Description!.Contains("has had a frame for longer than 00:00:10", StringComparison.Ordinal);
        });
        return health;
    }
}
