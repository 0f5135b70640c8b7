using BatchKit.Benchmarks.Echo;
using BatchKit.Benchmarks.Edge;
using BatchKit.Benchmarks.Fanout;
using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Groups;
using BatchKit.Benchmarks.Publish;
using BatchKit.Benchmarks.Rhythm;

namespace BatchKit.Benchmarks;

/// <summary>What runs a suite: its own class, when it needs processes beside this one, else BenchmarkDotNet.</summary>
internal static class SuiteRunners
{
    public static ISuiteRunner For(GateSuite suite) => suite.Classes switch
    {
        [nameof(BroadcastBenchmarks)] => new BroadcastBenchmarks(),
        [nameof(PlayhouseBenchmarks)] => new PlayhouseBenchmarks(),
        [nameof(EdgeBenchmarks)] => new EdgeBenchmarks(),
        [nameof(GroupsBenchmarks)] => new GroupsBenchmarks(),
        [nameof(MqttBenchmarks)] => new MqttBenchmarks(),
        [nameof(RhythmBenchmarks)] => new RhythmBenchmarks(),
        _ => new BenchmarkDotNetRunner(),
    };
}
