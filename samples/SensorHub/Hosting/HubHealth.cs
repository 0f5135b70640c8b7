using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;

namespace SensorHub.Hosting;

/// <summary>Asks the health checks that BatchKit has registered once a second, as a page or an orchestrator would.</summary>
internal sealed class HubHealth(HealthCheckService checks) : BackgroundService
{
    private static readonly TimeSpan Interval = TimeSpan.FromSeconds(1);

    private volatile HealthReport? _last;

    /// <summary>What they said last; null before the first answer.</summary>
    public HealthReport? Last => _last;

    protected override async Task ExecuteAsync(CancellationToken stoppingToken)
    {
        using var timer = new PeriodicTimer(Interval);
        while (await timer.WaitForNextTickAsync(stoppingToken))
            _last = await checks.CheckHealthAsync(stoppingToken);
    }
}
