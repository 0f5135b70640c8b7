using WorldTicks.Hosting;

namespace WorldTicks.World;

/// <summary>The world's clock. While a tick waits because the buffer is full, the ticks that are due are skipped.</summary>
internal sealed class TickLoop(GameWorld world, TicksOptions options)
{
    /// <summary>Runs until the token is cancelled or the duration has passed.</summary>
    public async Task RunAsync(CancellationToken cancellationToken)
    {
        using var timer = new PeriodicTimer(options.Tick);
        using var ending = CancellationTokenSource.CreateLinkedTokenSource(cancellationToken);
        if (options.Duration is { } duration)
            ending.CancelAfter(duration);
        try
        {
            while (await timer.WaitForNextTickAsync(ending.Token))
                await world.TickAsync(ending.Token);
        }
        catch (OperationCanceledException) when (ending.IsCancellationRequested)
        {
            // The run was stopped, or its duration has passed.
        }
    }
}
