using BatchKit.Benchmarks.Brokers;
using BatchKit.Benchmarks.Configuration;
using BatchKit.Benchmarks.Echo;
using BatchKit.Benchmarks.Edge;
using BatchKit.Benchmarks.Fanout;
using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Groups;
using BatchKit.Benchmarks.Hubs;
using BatchKit.Benchmarks.Latest;
using BatchKit.Benchmarks.Measuring;
using BatchKit.Benchmarks.Publish;
using BatchKit.Benchmarks.Rhythm;
using BenchmarkDotNet.Running;

namespace BatchKit.Benchmarks;

/// <summary><c>dry [suite…]</c>: runs every benchmark once, with one set of parameters, to see that it works.</summary>
internal static class DryCommand
{
    private static readonly GateSuite Once =
        new() { Rounds = 1, WarmupIterations = 1, Iterations = 1, IterationMilliseconds = 100, Gates = [] };

    /// <param name="suites">Only these; all when empty.</param>
    public static int Run(string[] suites)
    {
        var failed = 0;
        var known = GateFile.Read();
        if (suites.FirstOrDefault(name => !known.ContainsKey(name)) is { } unknown)
            throw new UsageException($"There is no suite '{unknown}'. There are: {string.Join(", ", known.Keys)}.");
        foreach (var suite in known.Where(suite => suites.Length == 0 || suites.Contains(suite.Key, StringComparer.Ordinal)))
            failed += RunSuite(suite.Key, suite.Value);
        Console.WriteLine(failed == 0 ? "All benchmarks that ran work." : $"{failed} benchmarks failed; BenchmarkDotNet's output is under artifacts/benchmarks.");
        return failed == 0 ? 0 : 1;
    }

    private static int RunSuite(string name, GateSuite suite) => suite.Classes switch
    {
        [nameof(BroadcastBenchmarks)] => RunOnce(name, suite, new BroadcastBenchmarks { Sizes = [100] }, Machine.WhyUnfit),
        [nameof(PlayhouseBenchmarks)] => RunOnce(name, suite, new PlayhouseBenchmarks { LongRunDuration = TimeSpan.FromSeconds(1) }, Machine.WhyUnfit),
        [nameof(EdgeBenchmarks)] => RunOnce(name, suite, new EdgeBenchmarks { IsShort = true }, Machine.WhyUnfit),
        [nameof(GroupsBenchmarks)] => RunOnce(name, suite, new GroupsBenchmarks { IsShort = true }, GroupsBenchmarks.WhyUnfit),
        [nameof(LatestBenchmarks)] => RunOnce(name, suite, new LatestBenchmarks { IsShort = true }, whyUnfit: null),
        [nameof(MqttBenchmarks)] => RunOnce(name, suite, new MqttBenchmarks { IsShort = true }, MqttBenchmarks.WhyUnfit),
        [nameof(RhythmBenchmarks)] => RunOnce(name, suite, new RhythmBenchmarks { IsShort = true }, RhythmBenchmarks.WhyUnfit),
        [nameof(SignalRBenchmarks)] => RunOnce(name, suite, new SignalRBenchmarks(), SignalRBenchmarks.WhyUnfit),
        _ => RunClasses(suite),
    };

    private static int RunClasses(GateSuite suite)
    {
        BenchmarkDotNetRunner.RefuseUnknown(suite);
        var failed = 0;
        var able = Catalog.Classes.Where(type => suite.Classes.Contains(type.Name, StringComparer.Ordinal)).Where(CanRun).Select(type => type.Name);
        foreach (var report in BenchmarkRunner.Run(FindOfEachMethod([.. able])).SelectMany(summary => summary.Reports))
        {
            Console.WriteLine($"{(report.Success ? "ok    " : "FAILED")} {Catalog.NameOf(report.BenchmarkCase)}");
            failed += report.Success ? 0 : 1;
        }

        return failed;
    }

    // One set of parameters is enough to see that a method works; the last has the largest.
    private static BenchmarkRunInfo[] FindOfEachMethod(IReadOnlyList<string> classes) =>
    [
        .. Catalog.Find(classes, RunConfiguration.ForDry(), _ => true)
            .Select(run => new BenchmarkRunInfo([.. run.BenchmarksCases.GroupBy(one => one.Descriptor.WorkloadMethod).Select(cases => cases.Last())], run.Type, run.Config)),
    ];

    private static int RunOnce(string name, GateSuite suite, ISuiteRunner runner, string? whyUnfit)
    {
        if (whyUnfit is { } reason)
        {
            Console.WriteLine($"left out {name}: {reason}");
            return 0;
        }

        try
        {
            var readings = runner.Measure(Once, everything: true);
            readings.WriteTables(Console.Out);
            readings.RefuseUnknown(suite);
            Console.WriteLine($"ok     {name}");
            return 0;
        }
        catch (InvalidOperationException failure)
        {
            Console.WriteLine($"FAILED {name}: {failure.Message}");
            return 1;
        }
    }

    private static bool CanRun(Type type)
    {
        if (MissingServer.WhyFor(type) is not { } reason)
            return true;
        Console.WriteLine($"left out {type.Name}: {reason}");
        return false;
    }
}
