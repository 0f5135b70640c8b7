using Spectre.Console;
using Spectre.Console.Rendering;
using WorldTicks.Hosting;
using WorldTicks.Working;

namespace WorldTicks.View;

/// <summary>Shows the figures of a worker.</summary>
internal sealed class WorkerScreen(TicksOptions options, WorkerMeter meter, RunClock clock) : IScreen
{
    private static readonly TimeSpan Second = TimeSpan.FromSeconds(1);

    private readonly Queue<(TimeSpan At, WorkerSnapshot Snapshot)> _lastSecond = [];

    public string Title =>
        $"{options.WorkerName}, up to {options.Concurrency} batches of {options.BatchSize} of a queue at once, {options.HandlerTime.TotalMilliseconds:N0} ms a task, PostgreSQL at {options.Address}, schema {options.Schema}";

    public IRenderable Draw(int width)
    {
        var (totals, perSecond) = Look();
        var rows = new Grid().AddColumn(new GridColumn { NoWrap = true, Padding = new Padding(0, 0, 2, 0) }).AddColumn();
        rows.AddRow("done", $"{Shown.Rate(perSecond)}  {Shown.Count(totals.Done)} in all, {Shown.Ratio(PerBatch(totals))} a batch");
        rows.AddRow("handling", $"{Shown.Count(totals.Handling)}");
        rows.AddRow("others", $"retaken {Shown.Marked(totals.Retaken, Shown.Notable)}   refused {Shown.Marked(totals.Refused, Shown.Notable)}   given back {Shown.Count(totals.GivenBack)}   "
            + $"failed {Shown.Count(totals.Retried)}   dead {Shown.Count(totals.Buried)}");
        rows.AddRow("server", totals.Fault is { } fault ? $"[{Shown.Bad}]{Markup.Escape(Shown.Cut(fault, width - Shown.FrameWidth))}[/]" : $"[{Shown.Good}]connected[/]");
        return new Panel(rows) { Header = new PanelHeader($" [bold]WorldTicks[/]  {Markup.Escape(Shown.Cut(Title, width - Shown.FrameWidth))} "), Border = BoxBorder.Rounded, Width = width };
    }

    public string Say()
    {
        var (totals, perSecond) = Look();
        return $"{Shown.Clock(clock.Now)}  done {Shown.Count(perSecond)}/s  {Shown.Count(totals.Done)} in all  handling {Shown.Count(totals.Handling)}  retaken {Shown.Count(totals.Retaken)}  "
            + $"refused {Shown.Count(totals.Refused)}  given back {Shown.Count(totals.GivenBack)}  failed {Shown.Count(totals.Retried)}  dead {Shown.Count(totals.Buried)}  {totals.Fault ?? "connected"}";
    }

    private (WorkerSnapshot Totals, double PerSecond) Look()
    {
        var now = (At: clock.Now, Snapshot: meter.Take());
        _lastSecond.Enqueue(now);
        while (_lastSecond.Count > 2 && now.At - _lastSecond.ElementAt(1).At >= Second)
            _lastSecond.Dequeue();
        var then = _lastSecond.Peek();
        return (now.Snapshot, now.At > then.At ? (now.Snapshot.Done - then.Snapshot.Done) / (now.At - then.At).TotalSeconds : 0);
    }

    private static double? PerBatch(WorkerSnapshot totals) => totals.Batches == 0 ? null : (double)totals.Messages / totals.Batches;
}
