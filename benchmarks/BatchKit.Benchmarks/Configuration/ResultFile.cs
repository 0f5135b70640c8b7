using BatchKit.Benchmarks.Gates;
using BenchmarkDotNet.Exporters;
using BenchmarkDotNet.Loggers;
using BenchmarkDotNet.Reports;

namespace BatchKit.Benchmarks.Configuration;

/// <summary>Writes a suite's results: the machine, the command, the gates and BenchmarkDotNet's tables.</summary>
internal static class ResultFile
{
    public static void Write(string folder, string suiteName, IReadOnlyList<GateResult> results, IReadOnlyList<Summary> summaries)
    {
        Directory.CreateDirectory(folder);
        using var writer = new StreamWriter(Path.Combine(folder, $"{suiteName}.md")) { NewLine = "\n" };
        writer.WriteLine($"# {suiteName}");
        writer.WriteLine();
        writer.WriteLine($"    dotnet run -c Release --project benchmarks/BatchKit.Benchmarks -- gate {suiteName} --out {folder}");
        writer.WriteLine();
        writer.WriteLine("| gate | measured | rounds | bound | |");
        writer.WriteLine("|---|---:|---:|---:|---|");
        foreach (var result in results)
            writer.WriteLine($"| {result.Gate.Name} | {result.Figure} | {result.Spread} | {result.Bound} | {result.Verdict} |");
        foreach (var summary in summaries)
            WriteTable(writer, summary);
    }

    private static void WriteTable(StreamWriter writer, Summary summary)
    {
        var log = new AccumulationLogger();
        MarkdownExporter.GitHub.ExportToLog(summary, log);
        writer.WriteLine();
        writer.WriteLine($"## {summary.BenchmarksCases[0].Descriptor.Type.Name}");
        writer.WriteLine();
        writer.WriteLine(log.GetLog().ReplaceLineEndings("\n").Trim());
    }
}
