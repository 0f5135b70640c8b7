namespace MudServer.Hosting;

/// <summary>Returns memory to the system after a busy time. Without this the collector keeps it until the next collection, which may be minutes later on an idle server.</summary>
internal sealed class MemoryReturn(TimeProvider timeProvider) : BackgroundService
{
    private const long BusyBytesPerSecond = 8 * 1024 * 1024;
    private const long KeptBytes = 16 * 1024 * 1024;

    private static readonly TimeSpan Period = TimeSpan.FromSeconds(1);

    protected override async Task ExecuteAsync(CancellationToken stoppingToken)
    {
        using var timer = new PeriodicTimer(Period, timeProvider);
        var (allocated, collected) = (GC.GetTotalAllocatedBytes(), 0L);
        while (await timer.WaitForNextTickAsync(stoppingToken))
        {
            var now = GC.GetTotalAllocatedBytes();
            var isIdle = now - allocated < BusyBytesPerSecond;
            allocated = now;
            if (!isIdle || now - collected < KeptBytes)
                continue;

            // This takes some 20 ms, once after each busy time.
            GC.Collect(GC.MaxGeneration, GCCollectionMode.Aggressive, blocking: true, compacting: true);
            collected = now;
        }
    }
}
