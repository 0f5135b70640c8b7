using System.Text;
using WorldTicks.Measuring;
using WorldTicks.Working;

namespace WorldTicks.View;

/// <summary>The text that the program prints at its end.</summary>
internal static class SummaryText
{
    public static string Of(WorldReading run)
    {
        var (totals, balance, latency) = (run.Totals, run.Totals.Balance, run.Latency);
        var text = new StringBuilder("\n");
        if (totals.Fault is { } fault)
            text.AppendLine($"The last figures before this fault: {fault}");
        Add(text, "enqueued", balance.Written, $"{Shown.Count(totals.Ticks)} ticks, {Shown.Count(totals.Shouts)} repeats dropped by their uniqueness key");
        Add(text, "done", balance.Done, $"p50 {Shown.Time(latency.Median)}, p99 {Shown.Time(latency.P99)}, longest {Shown.Time(latency.Longest)} from enqueue to handler");
        Add(text, "waiting", balance.Waiting, balance.Waiting > 0 ? "in the queue, for the next worker" : "");
        Add(text, "claimed", balance.Claimed, balance.Claimed > 0 ? "a worker holds them" : "");
        Add(text, "dead", balance.Dead, $"of {Shown.Count(totals.Poisoned)} that always fail");
        if (balance.Unsent + balance.Buffered > 0)
            Add(text, "never sent", balance.Unsent + balance.Buffered, "the server was unavailable until the time to stop ended");
        Add(text, "lost", balance.Lost, "");
        Add(text, "doubled", totals.Doubled, totals.Doubled > 0 ? "done by a worker that ended before it could complete them, and again by another" : "");
        Add(text, "retaken", totals.Retaken, totals.Retaken > 0 ? "from workers whose claim had ended" : "");
        Add(text, "out of order", totals.OutOfOrder, "");
        foreach (var (name, tally) in totals.ByWorker.OrderBy(pair => pair.Key, StringComparer.Ordinal))
            Add(text, name, tally.Done, tally.Retaken > 0 ? $"{Shown.Count(tally.Retaken)} retaken" : "");
        return text.ToString();
    }

    public static string Of(string worker, WorkerSnapshot totals)
    {
        var text = new StringBuilder("\n");
        Add(text, worker, totals.Done, "done");
        Add(text, "retaken", totals.Retaken, "");
        Add(text, "refused", totals.Refused, "");
        Add(text, "given back", totals.GivenBack, "");
        return text.ToString();
    }

    private static void Add(StringBuilder text, string name, long count, string remark) =>
        text.AppendLine($"{name,-20}{Shown.Count(count),12}  {remark}".TrimEnd());
}
