using WorldTicks.Hosting;

namespace WorldTicks.World;

/// <summary>The world's clock. A tick that waits for room in the buffer makes the next ones late; they are not made up for.</summary>
internal sealed class TickLoop(GameWorld world, TicksOptions options)
{
    /// <summary>Runs until the token is cancelled or the time is over.</summary>
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
            // That is how it ends.
        }
    }
}
