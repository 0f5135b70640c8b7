using BatchKit.Benchmarks.Projects;
using BatchKit.Benchmarks.Reports;

namespace BatchKit.Benchmarks.Comparing;

/// <summary>Runs the benchmarks of two builds in turn, and divides the times of each round.</summary>
internal sealed class Comparison(BenchmarkProject before, BenchmarkProject after, string artifacts, IReadOnlyList<string> filters)
{
    private readonly Dictionary<string, List<double>> _ratios = new(StringComparer.Ordinal);

    /// <summary>Each benchmark's times after by those before, by rounds.</summary>
    public IReadOnlyDictionary<string, List<double>> Ratios => _ratios;

    public async Task RunAsync(int rounds, CancellationToken cancellationToken)
    {
        await before.BuildAsync(cancellationToken);
        await after.BuildAsync(cancellationToken);
        for (var round = 1; round <= rounds; round++)
        {
            Console.Error.WriteLine($"round {round} of {rounds}");

            // The first of a round is the other one each time: who runs second meets a warmer machine.
            if (round % 2 == 1)
            {
                var first = await RunAsync(before, "before", round, cancellationToken);
                Add(first, await RunAsync(after, "after", round, cancellationToken));
            }
            else
            {
                var first = await RunAsync(after, "after", round, cancellationToken);
                Add(await RunAsync(before, "before", round, cancellationToken), first);
            }
        }
    }

    private Task<ReportFolder> RunAsync(BenchmarkProject project, string name, int round, CancellationToken cancellationToken) =>
        project.RunAsync(filters, Path.Combine(artifacts, $"{name}-{round}"), cancellationToken);

    // What only one of the commits has can't be compared.
    private void Add(ReportFolder old, ReportFolder young)
    {
        foreach (var name in young.Rows.Select(static row => row.Name).Intersect(old.Rows.Select(static row => row.Name), StringComparer.Ordinal))
        {
            if (!_ratios.TryGetValue(name, out var ratios))
                _ratios[name] = ratios = [];
            ratios.Add(young.ReadingOf(name)[Gates.GateMetric.Time] / old.ReadingOf(name)[Gates.GateMetric.Time]);
        }
    }
}
