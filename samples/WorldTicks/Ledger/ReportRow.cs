namespace WorldTicks.Ledger;

/// <summary>A report that the world has read.</summary>
/// <param name="Id">The number of the report.</param>
/// <param name="Number">The number of the task.</param>
/// <param name="Region">The region of the weather; 0 for an NPC.</param>
/// <param name="Step">The number of the step within its region.</param>
/// <param name="Attempt">The number of the attempt, from 1.</param>
/// <param name="Microseconds">How long the task waited for a handler; null for a task that was delayed or had failed.</param>
/// <param name="Worker">The worker that ran it.</param>
internal readonly record struct ReportRow(Guid Id, long Number, int Region, long Step, int Attempt, long? Microseconds, string Worker);
