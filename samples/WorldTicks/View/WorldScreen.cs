using Spectre.Console;
using Spectre.Console.Rendering;
using WorldTicks.Hosting;
using WorldTicks.Measuring;

namespace WorldTicks.View;

/// <summary>Shows the figures of a world: its tasks, where they are, and the workers.</summary>
internal sealed class WorldScreen(TicksOptions options, WorldWatch watch) : IScreen
{
    private const int ShownWorkers = 12;

    private readonly RateHistory _rates = new(PerSecond(options));

    public string Title => $"{Shown.Count(options.Npcs)} NPCs and {Shown.Count(options.Regions)} regions, a tick every {options.Tick.TotalMilliseconds:N0} ms, PostgreSQL at {options.Address}, schema {options.Schema}";

    public IRenderable Draw(int width)
    {
        var reading = watch.Reading;
        var totals = reading.Totals;
        _rates.Add(totals.At, reading.DonePerSecond);
        var rows = new Grid().AddColumn(new GridColumn { NoWrap = true, Padding = new Padding(0, 0, 2, 0) }).AddColumn();
        rows.AddRow("enqueued", $"{Shown.Rate(reading.WrittenPerSecond)}  {Shown.Count(totals.Tasks)} in {Shown.Count(totals.Ticks)} ticks, {Shown.Ratio(reading.TasksPerSend)} a send, {Shown.Count(totals.Shouts)} repeats dropped by their key");
        rows.AddRow("done", $"{Shown.Rate(reading.DonePerSecond)}  [{Shown.Good}]{_rates}[/]");
        rows.AddRow("latency", $"p50 [bold]{Shown.Time(reading.Latency.Median)}[/]   p99 [bold]{Shown.Time(reading.Latency.P99)}[/]   longest {Shown.Time(reading.Latency.Longest)}");
        rows.AddRow("backlog", $"{Shown.Count(totals.Ready)} ready, {Shown.Count(totals.Delayed)} delayed, {Shown.Count(totals.Claimed)} claimed, oldest {Shown.Time(totals.OldestAge)}, {Shown.Count(totals.Buffered)} in the buffer");
        rows.AddRow("account", Account(totals.Balance));
        rows.AddRow("trouble", $"lost {Shown.Marked(totals.Balance.Lost, Shown.Bad)}   out of order {Shown.Marked(totals.OutOfOrder, Shown.Bad)}   doubled {Shown.Marked(totals.Doubled, Shown.Notable)}   "
            + $"retaken {Shown.Marked(totals.Retaken, Shown.Notable)}   dead {Shown.Count(totals.Dead)} of {Shown.Count(totals.Poisoned)} poisoned");
        rows.AddRow("server", totals.Fault is { } fault ? $"[{Shown.Bad}]{Markup.Escape(Shown.Cut(fault, width - Shown.FrameWidth))}[/]" : $"[{Shown.Good}]connected[/]");
        var panel = new Panel(rows) { Header = new PanelHeader($" [bold]WorldTicks[/]  {Markup.Escape(Shown.Cut(Title, width - Shown.FrameWidth))} "), Border = BoxBorder.Rounded, Width = width };
        return new Rows(panel, WorkerTable.Of(reading, ShownWorkers));
    }

    public string Say()
    {
        var reading = watch.Reading;
        var totals = reading.Totals;
        return $"{Shown.Clock(totals.At)}  enqueued {Shown.Count(reading.WrittenPerSecond)}/s  done {Shown.Count(reading.DonePerSecond)}/s  "
            + $"p50 {Shown.Time(reading.Latency.Median)}  p99 {Shown.Time(reading.Latency.P99)}  "
            + $"waiting {Shown.Count(totals.Ready + totals.Delayed)}  claimed {Shown.Count(totals.Claimed)}  dead {Shown.Count(totals.Dead)}  lost {Shown.Count(totals.Balance.Lost)}  "
            + $"doubled {Shown.Count(totals.Doubled)}  retaken {Shown.Count(totals.Retaken)}  workers {totals.Workers.Count(worker => !worker.HasStopped && !worker.IsGone)}  {totals.Fault ?? "connected"}";
    }

    private static string Account(TaskBalance balance) =>
        $"{Shown.Count(balance.Written)} = {Shown.Count(balance.Done)} done + {Shown.Count(balance.Waiting)} waiting + {Shown.Count(balance.Claimed)} claimed + {Shown.Count(balance.Dead)} dead"
            + (balance.Buffered > 0 ? $" + {Shown.Count(balance.Buffered)} in the buffer" : "")
            + (balance.Unsent > 0 ? $" + [{Shown.Bad}]{Shown.Count(balance.Unsent)} never sent[/]" : "")
            + (balance.Lost > 0 ? $" + [{Shown.Bad}]{Shown.Count(balance.Lost)} lost[/]" : "");

    private static double PerSecond(TicksOptions options) => Math.Max(1, (options.Npcs + options.Regions) / options.Tick.TotalSeconds);
}
