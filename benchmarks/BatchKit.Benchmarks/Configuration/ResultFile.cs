using BatchKit.Benchmarks.Gates;

namespace BatchKit.Benchmarks.Configuration;

/// <summary>Writes a suite's results: the machine, the command, the gates and the tables. What was written by hand below them stays.</summary>
internal static class ResultFile
{
    private const string ByHand = "# By hand";

    public static void Write(string folder, string suiteName, IReadOnlyList<GateResult> results, SuiteReadings readings)
    {
        Directory.CreateDirectory(folder);
        var path = Path.Combine(folder, $"{suiteName}.md");
        var byHand = File.Exists(path) ? File.ReadLines(path).SkipWhile(line => line != ByHand).ToArray() : [];
        using var writer = new StreamWriter(path) { NewLine = "\n" };
        writer.WriteLine($"# {suiteName}");
        writer.WriteLine();
        writer.WriteLine($"    dotnet run -c Release --project benchmarks/BatchKit.Benchmarks -- gate {suiteName} --out {folder}");
        writer.WriteLine();
        writer.WriteLine("| gate | measured | rounds | bound | |");
        writer.WriteLine("|---|---:|---:|---:|---|");
        foreach (var result in results)
            writer.WriteLine($"| {result.Gate.Name} | {result.Figure} | {result.Spread} | {result.Bound} | {result.Verdict} |");
        readings.WriteTables(writer);
        if (byHand.Length > 0)
            writer.WriteLine();
        foreach (var line in byHand)
            writer.WriteLine(line);
    }
}
