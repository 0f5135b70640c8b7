using WorldTicks.World;

namespace WorldTicks.Ledger;

/// <summary>The report of a worker that it has run a task.</summary>
/// <param name="Id">The number of the report. It stays the same when the report is written again after a lost connection, so that it counts once.</param>
/// <param name="Task">The task.</param>
/// <param name="Attempt">The number of the attempt, from 1.</param>
/// <param name="EnqueuedAt">When the task was enqueued, by the server's clock.</param>
/// <param name="TakenAt">When the handler got it, as a <see cref="System.Diagnostics.Stopwatch"/>'s timestamp.</param>
internal readonly record struct TaskReport(Guid Id, WorldTask Task, int Attempt, DateTimeOffset EnqueuedAt, long TakenAt)
{
    /// <summary>True for the first attempt of a task without a delay. The others do not show how long tasks wait for a worker.</summary>
    public bool IsPrompt => Attempt == 1 && Task.Kind != TaskKind.Wake;
}
