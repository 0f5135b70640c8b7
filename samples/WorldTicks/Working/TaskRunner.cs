using WorldTicks.Hosting;
using WorldTicks.World;

namespace WorldTicks.Working;

/// <summary>Runs one task: waits for as long as a real one would take.</summary>
internal sealed class TaskRunner(TicksOptions options)
{
    /// <exception cref="PoisonedTaskException">The task is one that always fails.</exception>
    /// <exception cref="OperationCanceledException">The token was cancelled.</exception>
    public async ValueTask RunAsync(WorldTask task, CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        if (options.HandlerTime > TimeSpan.Zero)
            await Task.Delay(options.HandlerTime, cancellationToken);
        if (task.Kind == TaskKind.FallOffTheMap)
            throw new PoisonedTaskException($"NPC {task.Subject} fell off the map.");
    }
}
