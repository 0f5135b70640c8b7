using System.Text.Json;
using System.Text.Json.Serialization;
using BatchKit.Benchmarks.Gates;

namespace BatchKit.Benchmarks.Configuration;

/// <summary>Writes a suite's results: the command, the gates and the tables as Markdown, the gates as JSON. What was written by hand below the tables stays.</summary>
internal static class ResultFile
{
    private const string ByHand = "# By hand";

    private static readonly JsonSerializerOptions Format = new(JsonSerializerDefaults.Web) { WriteIndented = true, NumberHandling = JsonNumberHandling.AllowNamedFloatingPointLiterals };

    public static void Write(string folder, string suiteName, GateSuite suite, IReadOnlyList<GateResult> results, SuiteReadings readings)
    {
        Directory.CreateDirectory(folder);
        WriteMarkdown(folder, suiteName, suite, results, readings);
        WriteJson(Path.Combine(folder, $"{suiteName}.json"), results);
    }

    private static void WriteMarkdown(string folder, string suiteName, GateSuite suite, IReadOnlyList<GateResult> results, SuiteReadings readings)
    {
        var path = Path.Combine(folder, $"{suiteName}.md");
        var byHand = File.Exists(path) ? File.ReadLines(path).SkipWhile(line => line != ByHand).ToArray() : [];
        using var writer = new StreamWriter(path) { NewLine = "\n" };
        writer.WriteLine($"# {suiteName}");
        writer.WriteLine();
        if (!suite.IsForeign)
        {
            writer.WriteLine($"    dotnet run -c Release --project benchmarks/BatchKit.Benchmarks -- gate {suiteName} --out {folder}");
            writer.WriteLine();
        }

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

    private static void WriteJson(string path, IEnumerable<GateResult> results) => File.WriteAllText(path, JsonSerializer.Serialize(
        results.Select(static result => new { result.Gate.Name, Measured = result.WhyMissing is null ? result.Measured : (double?)null, result.Rounds, result.Gate.Max, result.Gate.Min, result.IsOk, result.WhyMissing }), Format) + "\n");
}
