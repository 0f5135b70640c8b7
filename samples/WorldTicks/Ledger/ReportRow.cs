namespace WorldTicks.Ledger;

/// <summary>A report, as the world reads it.</summary>
/// <param name="Id">The report's own.</param>
/// <param name="Number">The task's.</param>
/// <param name="Region">Whose weather it was; 0 for an NPC.</param>
/// <param name="Step">The region's how-manieth step.</param>
/// <param name="Attempt">Which attempt it was, from 1.</param>
/// <param name="Microseconds">How long the task waited for a handler; null where that says nothing.</param>
/// <param name="Worker">Who ran it.</param>
internal readonly record struct ReportRow(Guid Id, long Number, int Region, long Step, int Attempt, long? Microseconds, string Worker);
