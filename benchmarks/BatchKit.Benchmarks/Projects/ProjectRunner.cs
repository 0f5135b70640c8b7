using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Reports;

namespace BatchKit.Benchmarks.Projects;

/// <summary>Runs a user's project in rounds, each in a process of its own.</summary>
/// <param name="project">The project.</param>
/// <param name="artifacts">The folder for what the rounds write.</param>
/// <param name="cancellationToken">Ends the run and its program.</param>
internal sealed class ProjectRunner(BenchmarkProject project, string artifacts, CancellationToken cancellationToken) : ISuiteRunner
{
    public SuiteReadings Measure(GateSuite suite, bool everything) => MeasureAsync(suite).GetAwaiter().GetResult();

    private async Task<SuiteReadings> MeasureAsync(GateSuite suite)
    {
        await project.BuildAsync(cancellationToken);
        RefuseUnknown(suite, await project.ListAsync(cancellationToken));
        ReportFolder? first = null;
        var readings = new SuiteReadings(writer => WriteTables(writer, first!));
        for (var round = 1; round <= suite.Rounds; round++)
        {
            Console.Error.WriteLine($"round {round} of {suite.Rounds}");
            var folder = await project.RunAsync([.. suite.Benchmarks.SelectMany(FiltersFor).Distinct(StringComparer.Ordinal)], Path.Combine(artifacts, $"round-{round}"), cancellationToken);
            folder.AddTo(readings, suite);
            first ??= folder;
        }

        return readings;
    }

    public static void WriteTables(TextWriter writer, ReportFolder folder)
    {
        foreach (var table in folder.Tables)
        {
            writer.WriteLine();
            writer.WriteLine(table.ReplaceLineEndings("\n").Trim());
        }
    }

    // BenchmarkDotNet's filter compares the full name: Namespace.Class.Method, then the parameters in parentheses.
    private static IEnumerable<string> FiltersFor(string benchmark) => [$"*{Gate.MethodOf(benchmark)}", $"*{Gate.MethodOf(benchmark)}(*"];

    private static void RefuseUnknown(GateSuite suite, IReadOnlyList<string> known)
    {
        foreach (var gate in suite.Gates)
        {
            foreach (var method in gate.Benchmarks.Select(Gate.MethodOf))
            {
                if (!known.Any(name => name == method || name.EndsWith($".{method}", StringComparison.Ordinal)))
                    throw new UsageException($"The gate '{gate.Name}' names the benchmark {method}, which the project does not have. It has: {string.Join("; ", known)}.");
            }
        }
    }
}
