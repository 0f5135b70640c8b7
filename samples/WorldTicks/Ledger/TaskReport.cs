using WorldTicks.World;

namespace WorldTicks.Ledger;

/// <summary>A worker has run a task.</summary>
/// <param name="Id">Made once, so that a report which is written again after a lost connection counts once.</param>
/// <param name="Task">Which.</param>
/// <param name="Attempt">Which attempt it was, from 1.</param>
/// <param name="EnqueuedAt">When the task was enqueued, by the server's clock.</param>
/// <param name="TakenAt">When the handler got it, as a <see cref="System.Diagnostics.Stopwatch"/>'s timestamp.</param>
internal readonly record struct TaskReport(Guid Id, WorldTask Task, int Attempt, DateTimeOffset EnqueuedAt, long TakenAt)
{
    /// <summary>Whether it was to be run at once, the first time: what was delayed, or had failed, says nothing about how long tasks wait.</summary>
    public bool IsPrompt => Attempt == 1 && Task.Kind != TaskKind.Wake;
}
