using BatchKit.Postgres;
using Spectre.Console;

namespace BatchKit.Tool.Output;

/// <summary>The queues and their counts, for people.</summary>
internal static class QueueTable
{
    private static readonly Style Quiet = new(Color.Grey);
    private static readonly Style Alarming = new(Color.Red);

    public static Table Create(IReadOnlyList<QueueCounts> queues)
    {
        var table = new Table { Border = TableBorder.Simple };
        table.AddColumn("Queue");
        foreach (var heading in (string[])["Shards", "Ready", "Delayed", "Claimed", "Dead", "Oldest"])
            table.AddColumn(heading, column => column.RightAligned().NoWrap());
        foreach (var queue in queues)
        {
            table.AddRow(
                new Text(PrintableText.Of(queue.Queue)), Count(queue.Shards), Count(queue.Ready), Count(queue.Delayed), Count(queue.Claimed), Count(queue.Dead, Alarming),
                queue.OldestAge is { } age ? new Text(AgeText.Of(age)) : new Text("-", Quiet));
        }

        return table;
    }

    private static Text Count(long count, Style? style = null) => count == 0 ? new Text("0", Quiet) : new Text($"{count:N0}", style);
}
