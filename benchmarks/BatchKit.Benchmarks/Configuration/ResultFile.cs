using BatchKit.Benchmarks.Gates;

namespace BatchKit.Benchmarks.Configuration;

/// <summary>Writes a suite's results: the machine, the command, the gates and the tables.</summary>
internal static class ResultFile
{
    public static void Write(string folder, string suiteName, IReadOnlyList<GateResult> results, SuiteReadings readings)
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
        readings.WriteTables(writer);
    }
}
