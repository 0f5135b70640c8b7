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

    /// <summary>A time after by the one before; null when only one of them is zero, as an empty method's is.</summary>
    internal static double? RatioOf(double before, double after) => before.Equals(after) ? 1 : before > 0 && after > 0 ? after / before : null;

    private Task<ReportFolder> RunAsync(BenchmarkProject project, string name, int round, CancellationToken cancellationToken) =>
        project.RunAsync(filters, Path.Combine(artifacts, $"{name}-{round}"), cancellationToken);

    // What only one of the commits has can't be compared.
    private void Add(ReportFolder old, ReportFolder young)
    {
        foreach (var name in young.Rows.Select(static row => row.Name).Intersect(old.Rows.Select(static row => row.Name), StringComparer.Ordinal))
        {
            if (RatioOf(old.ReadingOf(name)[Gates.GateMetric.Time], young.ReadingOf(name)[Gates.GateMetric.Time]) is not { } ratio)
            {
                Console.Error.WriteLine($"left out of this round {name}: one of its times is 0");
                continue;
            }

            if (!_ratios.TryGetValue(name, out var ratios))
                _ratios[name] = ratios = [];
            ratios.Add(ratio);
        }
    }
}
