using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;

namespace SensorHub.Hosting;

/// <summary>Runs the health checks that BatchKit has registered, once a second, as an orchestrator does.</summary>
internal sealed class HubHealth(HealthCheckService checks) : BackgroundService
{
    private static readonly TimeSpan Interval = TimeSpan.FromSeconds(1);

    private volatile HealthReport? _last;

    /// <summary>The last report; null before the first.</summary>
    public HealthReport? Last => _last;

    protected override async Task ExecuteAsync(CancellationToken stoppingToken)
    {
        using var timer = new PeriodicTimer(Interval);
        while (await timer.WaitForNextTickAsync(stoppingToken))
            _last = await checks.CheckHealthAsync(stoppingToken);
    }
}
