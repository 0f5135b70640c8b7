using BenchmarkDotNet.Environments;

namespace BatchKit.Benchmarks.Measuring;

/// <summary>Writes the tables of a suite that BenchmarkDotNet does not run.</summary>
internal static class MarkdownTable
{
    /// <summary>Writes what machine it was.</summary>
    public static void WriteMachine(TextWriter writer)
    {
        writer.WriteLine();
        writer.WriteLine("```");
        foreach (var line in HostEnvironmentInfo.GetCurrent().ToFormattedString())
            writer.WriteLine(line);
        writer.WriteLine("```");
    }

    /// <param name="writer">Gets the table.</param>
    /// <param name="title">Its heading.</param>
    /// <param name="columns">The first is text, the others are numbers.</param>
    /// <param name="rows">A cell for each column.</param>
    public static void Write(TextWriter writer, string title, IReadOnlyList<string> columns, IEnumerable<IEnumerable<string>> rows)
    {
        writer.WriteLine();
        writer.WriteLine($"## {title}");
        writer.WriteLine();
        writer.WriteLine($"| {string.Join(" | ", columns)} |");
        writer.WriteLine($"|---{string.Concat(Enumerable.Repeat("|---:", columns.Count - 1))}|");
        foreach (var row in rows)
            writer.WriteLine($"| {string.Join(" | ", row)} |");
    }
}
