using Microsoft.Extensions.Hosting;
using WorldTicks.Hosting;

namespace WorldTicks.Measuring;

/// <summary>Reads all counters four times a second, for the view and for the end of the run.</summary>
internal sealed class WorldWatch(WorldMeter meter, SampleLog events) : BackgroundService
{
    private const int LooksPerSecond = 4;

    private readonly Queue<WorldSnapshot> _lastSecond = [];

    private volatile WorldReading _reading = new(new WorldSnapshot { At = TimeSpan.Zero }, new WorldSnapshot { At = TimeSpan.Zero });

    /// <summary>The latest reading of the last second.</summary>
    public WorldReading Reading => _reading;

    /// <exception cref="StartException">The server became unavailable.</exception>
    public override async Task StartAsync(CancellationToken cancellationToken)
    {
        var open = await meter.BeginAsync(cancellationToken);
        if (open > 0)
            events.Add($"{open:N0} tasks of an earlier world are open; workers run them too.");
        await base.StartAsync(cancellationToken);
    }

    protected override async Task ExecuteAsync(CancellationToken stoppingToken)
    {
        using var timer = new PeriodicTimer(TimeSpan.FromSeconds(1.0 / LooksPerSecond));
        do
        {
            _lastSecond.Enqueue(await meter.TakeAsync(stoppingToken));
            if (_lastSecond.Count > LooksPerSecond + 1)
                _lastSecond.Dequeue();
            _reading = new WorldReading(_lastSecond.Peek(), _lastSecond.Last());
        }
        while (await timer.WaitForNextTickAsync(stoppingToken));
    }
}
