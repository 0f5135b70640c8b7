using WorldTicks.Hosting;
using WorldTicks.World;

namespace WorldTicks.Working;

/// <summary>Runs one task: takes the time that a real one would.</summary>
internal sealed class TaskRunner(TicksOptions options)
{
    /// <exception cref="PoisonedTaskException">It fails, as it always will.</exception>
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
