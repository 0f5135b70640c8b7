using System.Text.Json;
using BatchKit.Benchmarks.Gates;

namespace BatchKit.Benchmarks.Reports;

/// <summary>What a run of BenchmarkDotNet left in a folder: its JSON reports, and its tables in Markdown.</summary>
internal sealed class ReportFolder
{
    private readonly string _folder;
    private readonly Dictionary<string, ReportRow> _rows;

    private ReportFolder(string folder, Dictionary<string, ReportRow> rows) => (_folder, _rows) = (folder, rows);

    public IReadOnlyCollection<ReportRow> Rows => _rows.Values;

    /// <summary>The tables, by the reports' names, as BenchmarkDotNet wrote them for GitHub.</summary>
    public IEnumerable<string> Tables => Directory.GetFiles(_folder, "*-report-github.md").Order(StringComparer.Ordinal).Select(File.ReadAllText);

    /// <param name="path">The folder <c>BenchmarkDotNet.Artifacts</c> or its <c>results</c>.</param>
    /// <exception cref="UsageException">There is no report, or one that tells two benchmarks apart by nothing.</exception>
    public static ReportFolder Read(string path)
    {
        var nested = Path.Combine(path, "results");
        var folder = Directory.Exists(nested) ? nested : path;
        if (!Directory.Exists(folder))
            throw new UsageException($"There is no folder {path}.");

        var files = FindReports(folder);
        if (files.Length == 0)
            throw new UsageException($"{folder} has no report in JSON: run the benchmarks with --exporters json.");
        var rows = new Dictionary<string, ReportRow>(StringComparer.Ordinal);
        foreach (var row in files.SelectMany(ReadFile))
        {
            if (!rows.TryAdd(row.Name, row))
                throw new UsageException($"{folder} has two benchmarks called {row.Name}. Run one job, one of the classes of that name, and parameters that BenchmarkDotNet does not shorten to the same text.");
        }

        return new ReportFolder(folder, rows);
    }

    /// <exception cref="InvalidOperationException">The benchmark failed.</exception>
    public GateReading ReadingOf(string benchmark)
    {
        var row = _rows[benchmark];
        var time = row.Time ?? throw new InvalidOperationException($"{benchmark} failed: {_folder} has no figures of it.");
        return row.Allocated is { } allocated
            ? new GateReading { [GateMetric.Time] = time, [GateMetric.Allocated] = allocated }
            : new GateReading { [GateMetric.Time] = time };
    }

    /// <summary>Adds a round of a suite.</summary>
    /// <exception cref="UsageException">A gate names what the reports do not have.</exception>
    public void AddTo(SuiteReadings readings, GateSuite suite)
    {
        foreach (var gate in suite.Gates)
        {
            Require(gate, gate.Numerator, gate.Metric);
            if (gate.Denominator is not null)
                Require(gate, gate.Denominator, gate.DenominatorMetric ?? gate.Metric);
        }

        foreach (var benchmark in suite.Benchmarks)
            readings.Add(benchmark, ReadingOf(benchmark));
    }

    private void Require(Gate gate, string benchmark, GateMetric metric)
    {
        if (!_rows.TryGetValue(benchmark, out var row))
            throw new UsageException($"The gate '{gate.Name}' names the benchmark {benchmark}, which is not in the results. They have: {string.Join("; ", _rows.Keys)}.");
        if (metric is not (GateMetric.Time or GateMetric.Allocated))
            throw new UsageException($"The gate '{gate.Name}' has the metric {metric}; reports have time and allocated.");
        if (metric == GateMetric.Allocated && row.Allocated is null)
            throw new UsageException($"The gate '{gate.Name}' needs the allocated bytes of {benchmark}: its class needs [MemoryDiagnoser].");
    }

    // A run may write a brief report and a full one: they say the same.
    private static string[] FindReports(string folder)
    {
        try
        {
            return [.. Directory.GetFiles(folder, "*-report*.json").Order(StringComparer.Ordinal).DistinctBy(NameOf, StringComparer.Ordinal)];
        }
        catch (Exception failure) when (failure is IOException or UnauthorizedAccessException)
        {
            throw new UsageException($"{folder} can't be read: {failure.Message}");
        }
    }

    private static string NameOf(string file)
    {
        var name = Path.GetFileName(file);
        return name[..name.LastIndexOf("-report", StringComparison.Ordinal)];
    }

    private static List<ReportRow> ReadFile(string file)
    {
        try
        {
            using var document = JsonDocument.Parse(File.ReadAllBytes(file));
            return [.. document.RootElement.GetProperty("Benchmarks").EnumerateArray().Select(ReadRow)];
        }
        catch (Exception fault) when (fault is JsonException or KeyNotFoundException or InvalidOperationException)
        {
            throw new UsageException($"{file} is no report of BenchmarkDotNet: {fault.Message}");
        }
        catch (Exception failure) when (failure is IOException or UnauthorizedAccessException)
        {
            throw new UsageException($"{file} can't be read: {failure.Message}");
        }
    }

    private static ReportRow ReadRow(JsonElement row)
    {
        var parameters = row.GetProperty("Parameters").GetString() ?? "";
        return new ReportRow(
            TextOf(row, "Type"),
            TextOf(row, "Method"),
            parameters.Length > 0 ? $"[{parameters.Replace("&", ", ", StringComparison.Ordinal)}]" : "",
            NumberOf(row, "Statistics", "Q1"),
            NumberOf(row, "Memory", "BytesAllocatedPerOperation"));
    }

    private static string TextOf(JsonElement row, string name) =>
        row.GetProperty(name).GetString() ?? throw new InvalidOperationException($"A benchmark has no {name}.");

    private static double? NumberOf(JsonElement row, string part, string name) =>
        row.TryGetProperty(part, out var found) && found.ValueKind == JsonValueKind.Object && found.TryGetProperty(name, out var value) && value.ValueKind == JsonValueKind.Number
            ? value.GetDouble()
            : null;
}
