using BatchKit.Benchmarks.Brokers;
using BatchKit.Benchmarks.Configuration;
using BenchmarkDotNet.Exporters;
using BenchmarkDotNet.Loggers;
using BenchmarkDotNet.Reports;
using BenchmarkDotNet.Running;

namespace BatchKit.Benchmarks.Gates;

/// <summary>Runs classes of BenchmarkDotNet's, in this process.</summary>
internal sealed class BenchmarkDotNetRunner : ISuiteRunner
{
    // What a run of BenchmarkDotNet 0.14 allocates for itself is some 5 kB.
    private const long OwnBytes = 8 * 1024;

    // A row that goes through a broker's client, both ends and a few threads takes that long until the compiler's last tier has all of it, and is up to three times slower until then.
    private const int WarmUpMilliseconds = 1500;

    private IReadOnlyList<Summary> _tables = [];

    public SuiteReadings Measure(GateSuite suite, bool everything)
    {
        RefuseUnknown(suite);
        RefuseWithoutBroker(suite);
        var readings = new SuiteReadings(WriteTables);
        Console.Error.WriteLine("warming up");
        RunRound(suite with { WarmupIterations = 0, Iterations = 1, IterationMilliseconds = WarmUpMilliseconds }, everything, new SuiteReadings(WriteTables));
        for (var round = 1; round <= suite.Rounds; round++)
        {
            Console.Error.WriteLine($"round {round} of {suite.Rounds}");
            var summaries = RunRound(suite, everything && (round == 1 || suite.Gates.Count == 0), readings);
            if (round == 1)
                _tables = summaries;
        }

        return readings;
    }

    /// <exception cref="InvalidOperationException">A gate names a benchmark that does not exist.</exception>
    public static void RefuseUnknown(GateSuite suite)
    {
        var known = Catalog.Find(suite.Classes, RunConfiguration.ForGates(suite), _ => true)
            .SelectMany(run => run.BenchmarksCases).Select(Catalog.NameOf).ToHashSet(StringComparer.Ordinal);
        var unknown = suite.Benchmarks.Where(name => !known.Contains(name)).ToArray();
        if (unknown.Length > 0)
            throw new InvalidOperationException($"gates.json names benchmarks that do not exist: {string.Join("; ", unknown)}.");
    }

    private static Summary[] RunRound(GateSuite suite, bool everything, SuiteReadings readings)
    {
        var gated = suite.Benchmarks.ToHashSet(StringComparer.Ordinal);
        var runs = Catalog.Find(suite.Classes, RunConfiguration.ForGates(suite), name => everything || gated.Contains(name));
        var summaries = BenchmarkRunner.Run(runs);
        foreach (var report in summaries.SelectMany(summary => summary.Reports))
        {
            var name = Catalog.NameOf(report.BenchmarkCase);
            if (report.ResultStatistics is not { } statistics)
                throw new InvalidOperationException($"{name} failed; its output is in {summaries[0].LogFilePath}.");
            // The lower quartile: others' load on the machine only ever adds, so a busy one moves it less than the median.
            readings.Add(name, new GateReading { [GateMetric.Time] = statistics.Q1, [GateMetric.Allocated] = AllocatedByOperation(report) });
        }

        return summaries;
    }

    // BenchmarkDotNet's own figure is rounded to whole bytes an operation, which would hide an object in every hundredth.
    private static double AllocatedByOperation(BenchmarkReport report) =>
        report.GcStats.GetTotalAllocatedBytes(excludeAllocationQuantumSideEffects: false) is { } bytes && report.GcStats.TotalOperations > 0
            ? Math.Max(0, bytes - OwnBytes) / (double)report.GcStats.TotalOperations
            : 0;

    private static void RefuseWithoutBroker(GateSuite suite)
    {
        var missing = Catalog.Classes.Where(type => suite.Classes.Contains(type.Name, StringComparer.Ordinal)).Select(MissingServer.WhyFor);
        if (missing.FirstOrDefault(static reason => reason is not null) is { } reason)
            throw new InvalidOperationException(reason);
    }

    private void WriteTables(TextWriter writer)
    {
        foreach (var summary in _tables)
        {
            var log = new AccumulationLogger();
            MarkdownExporter.GitHub.ExportToLog(summary, log);
            writer.WriteLine();
            writer.WriteLine($"## {summary.BenchmarksCases[0].Descriptor.Type.Name}");
            writer.WriteLine();
            writer.WriteLine(log.GetLog().ReplaceLineEndings("\n").Trim());
        }
    }
}
