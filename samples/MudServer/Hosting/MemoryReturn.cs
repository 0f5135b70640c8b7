namespace MudServer.Hosting;

/// <summary>Gives memory back to the system when a busy time is over. The collector by itself keeps it until the next collection, which an idle server needs only after minutes.</summary>
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

            // It takes some 20 ms, once after each busy time.
            GC.Collect(GC.MaxGeneration, GCCollectionMode.Aggressive, blocking: true, compacting: true);
            collected = now;
        }
    }
}
