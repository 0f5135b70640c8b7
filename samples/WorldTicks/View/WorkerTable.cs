using Spectre.Console;
using WorldTicks.Ledger;
using WorldTicks.Measuring;

namespace WorldTicks.View;

/// <summary>A table with a row for each worker, including those that have ended.</summary>
internal static class WorkerTable
{
    public static Table Of(WorldReading reading, int most)
    {
        var table = new Table { Border = TableBorder.None };
        table.AddColumn(new TableColumn("  [grey]worker[/]"));
        foreach (var name in new[] { "handling", "done/s", "done", "retaken", "given back", "refused" })
            table.AddColumn(new TableColumn($"[grey]{name}[/]").RightAligned());
        table.AddColumn(new TableColumn("[grey]state[/]"));
        foreach (var worker in reading.Totals.Workers.OrderBy(worker => worker.HasStopped).Take(most))
            AddRow(table, reading, worker);
        return table;
    }

    private static void AddRow(Table table, WorldReading reading, WorkerRow worker)
    {
        var tally = reading.Totals.ByWorker.GetValueOrDefault(worker.Name);
        table.AddRow(
            $"  {Markup.Escape(Shown.Cut(worker.Name, 30))}", worker.IsGone ? "?" : Shown.Count(worker.Handling), Shown.Count(reading.DonePerSecondBy(worker.Name)), Shown.Count(tally.Done),
            Shown.Marked(tally.Retaken, Shown.Notable), Shown.Count(worker.GivenBack), Shown.Marked(worker.Refused, Shown.Notable), State(worker));
    }

    private static string State(WorkerRow worker) =>
        worker.HasStopped ? "[grey]stopped[/]"
        : worker.IsGone ? $"[{Shown.Bad}]silent for {Shown.Count(worker.Silence.TotalSeconds)} s[/]"
        : $"[{Shown.Good}]there[/]";
}
