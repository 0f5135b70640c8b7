using System.Text.Json;
using System.Text.Json.Serialization;
using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Measuring;

namespace BatchKit.Benchmarks.Configuration;

/// <summary>What <c>run</c> measured: tables on the console, and as Markdown and JSON in a folder.</summary>
internal static class RunReport
{
    private static readonly JsonSerializerOptions Format = new(JsonSerializerDefaults.Web) { WriteIndented = true, NumberHandling = JsonNumberHandling.AllowNamedFloatingPointLiterals };

    /// <param name="name">The suite.</param>
    /// <param name="settings">What it was told, as a heading.</param>
    /// <param name="readings">What was measured.</param>
    /// <param name="folder">Where files go; null for none.</param>
    public static void Write(string name, string settings, SuiteReadings readings, string? folder)
    {
        readings.WriteTables(Console.Out);
        if (folder is not null)
            OutPath.Write(folder, () => WriteFiles(name, settings, readings, folder));
    }

    private static void WriteFiles(string name, string settings, SuiteReadings readings, string folder)
    {
        using (var writer = new StreamWriter(Path.Combine(folder, $"{name}.md")) { NewLine = "\n" })
        {
            writer.WriteLine($"# {name}: {settings}");
            readings.WriteTables(writer);
        }

        File.WriteAllText(Path.Combine(folder, $"{name}.json"), JsonSerializer.Serialize(readings.All.Select(static row => new { Benchmark = row.Key, Medians = MediansOf(row.Value) }), Format) + "\n");
    }

    // A metric's median of the rounds; time is in nanoseconds, the others are in the units of GateMetric.
    private static Dictionary<string, double> MediansOf(List<GateReading> rounds) =>
        rounds[0].Values.Keys.ToDictionary(static metric => JsonNamingPolicy.CamelCase.ConvertName($"{metric}"), metric => Quantile.Of(rounds.Select(round => round[metric]), 0.5));
}
