using BatchKit.Postgres;
using Spectre.Console;

namespace BatchKit.Tool.Output;

/// <summary>Dead messages, a line each, for people; what is too long for the terminal is cut.</summary>
internal static class DeadTable
{
    private const int MaxKeyWidth = 12;
    private const int LeastTextWidth = 10;

    // A column has a space on each side and one to its neighbour, and the table one at each end.
    private const int PaddingWidth = 3;
    private const int EdgeWidth = 2;

    public static Table Create(IReadOnlyList<DeadMessage> messages, DateTimeOffset now, int width)
    {
        var rows = messages.Select(message => Row(message, now)).ToArray();
        string[] headings = ["Id", "Key", "Tries", "Died", "Error", "Payload"];
        var textWidth = width - EdgeWidth - PaddingWidth * headings.Length;
        for (var column = 0; column < 4; column++)
            textWidth -= Math.Max(headings[column].Length, rows.Max(row => row[column].Length));
        var (errorWidth, payloadWidth) = Share(Math.Max(textWidth, 2 * LeastTextWidth), rows.Max(row => row[4].Length), rows.Max(row => row[5].Length));

        var table = new Table { Border = TableBorder.Simple };
        foreach (var heading in headings)
            table.AddColumn(heading, column => column.NoWrap().Alignment(heading is "Id" or "Tries" or "Died" ? Justify.Right : Justify.Left));
        foreach (var row in rows)
        {
            table.AddRow(
                new Text(row[0]), new Text(row[1]), new Text(row[2]), new Text(row[3]),
                new Text(PrintableText.Cut(row[4], errorWidth), new Style(Color.Red)), new Text(PrintableText.Cut(row[5], payloadWidth)));
        }

        return table;
    }

    private static string[] Row(DeadMessage message, DateTimeOffset now) =>
    [
        $"{message.Id}", message.Key is null ? "-" : PrintableText.Cut(PrintableText.Of(message.Key), MaxKeyWidth), $"{message.Attempts}", $"{AgeText.Roughly(now - message.DiedAt)} ago",
        PrintableText.Of(message.Error), message.Payload.IsEmpty ? "(empty)" : PrintableText.Of(message.Payload.Span),
    ];

    // Each gets half, and what the other does not need.
    private static (int First, int Second) Share(int width, int first, int second)
    {
        var half = width / 2;
        var firstWidth = first <= half ? first : Math.Max(half, width - second);
        return (firstWidth, width - firstWidth);
    }
}
