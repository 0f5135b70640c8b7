using BatchKit.Benchmarks.Echo;
using BatchKit.Benchmarks.Edge;
using BatchKit.Benchmarks.Fanout;
using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Groups;
using BatchKit.Benchmarks.Hubs;
using BatchKit.Benchmarks.Latest;
using BatchKit.Benchmarks.Projects;
using BatchKit.Benchmarks.Publish;
using BatchKit.Benchmarks.Rhythm;

namespace BatchKit.Benchmarks;

/// <summary>What runs a suite: a user's project, its own class, when it needs processes beside this one, else BenchmarkDotNet.</summary>
internal static class SuiteRunners
{
    /// <param name="name">The suite's name.</param>
    /// <param name="suite">What it names.</param>
    /// <param name="folder">Where paths of the suite begin.</param>
    /// <param name="cancellationToken">Ends the programs of a user's project.</param>
    /// <exception cref="UsageException">The suite names nothing that can be run.</exception>
    public static ISuiteRunner For(string name, GateSuite suite, string folder, CancellationToken cancellationToken)
    {
        if (suite.Results.Count > 0)
            return new ResultsRunner([.. suite.Results.Select(path => Path.Combine(folder, path))]);
        if (suite.Project is not null)
            return new ProjectRunner(new BenchmarkProject(Path.Combine(folder, suite.Project), suite.Arguments), Path.Combine("BenchmarkDotNet.Artifacts", "gates", name), cancellationToken);
        return suite.Classes switch
        {
            [nameof(BroadcastBenchmarks)] => new BroadcastBenchmarks(),
            [nameof(PlayhouseBenchmarks)] => new PlayhouseBenchmarks(),
            [nameof(EdgeBenchmarks)] => new EdgeBenchmarks(),
            [nameof(GroupsBenchmarks)] => new GroupsBenchmarks(),
            [nameof(LatestBenchmarks)] => new LatestBenchmarks(),
            [nameof(MqttBenchmarks)] => new MqttBenchmarks(),
            [nameof(RhythmBenchmarks)] => new RhythmBenchmarks(),
            [nameof(SignalRBenchmarks)] => new SignalRBenchmarks(),
            [] => throw new UsageException($"'{name}' names neither a project nor results: give --project or --results."),
            _ => new BenchmarkDotNetRunner(),
        };
    }
}
