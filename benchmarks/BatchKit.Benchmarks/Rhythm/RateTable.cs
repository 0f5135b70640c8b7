using BatchKit.Benchmarks.Measuring;

namespace BatchKit.Benchmarks.Rhythm;

/// <summary>Writes the rows of one group on one disk.</summary>
internal static class RateTable
{
    public static void Write(TextWriter writer, RateGroup group, string disk, IReadOnlyList<RateRow> rows)
    {
        var (title, floor) = group switch
        {
            RateGroup.Enqueue => ("Enqueue: 10 producers", "COPY"),
            RateGroup.Drain => ("Drain: 10 workers, handlers that do nothing", "DELETE … RETURNING"),
            RateGroup.Work => ("Drain: 10 workers, handlers that take 2 ms a task (5,000 a second at most)", "the handlers alone"),
            _ => ("End to end, enqueueing included: one producer, batches of 100", ""),
        };
        title += $", disk {disk}";
        if (group == RateGroup.EndToEnd)
            MarkdownTable.Write(writer, title, ["", "tasks/s", "ms"], rows.Select(row => (string[])[row.Plan.Title, $"{row.Rate:0}", $"{row.Plan.Tasks / row.Rate * 1000:0.0}"]));
        else
            MarkdownTable.Write(writer, title, ["", "tasks/s", "times the first", $"of {floor}", "CPU here, µs a task"], rows.Select(row => row.Describe(rows[0], rows[^1])));
    }
}
