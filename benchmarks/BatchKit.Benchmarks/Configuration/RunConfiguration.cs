using BatchKit.Benchmarks.Gates;
using BenchmarkDotNet.Columns;
using BenchmarkDotNet.Configs;
using BenchmarkDotNet.Diagnosers;
using BenchmarkDotNet.Jobs;
using BenchmarkDotNet.Loggers;
using BenchmarkDotNet.Toolchains.InProcess.Emit;
using Perfolizer.Horology;

namespace BatchKit.Benchmarks.Configuration;

/// <summary>How BenchmarkDotNet runs what is here: always in this process, because all benchmarks share the brokers that it started.</summary>
internal static class RunConfiguration
{
    /// <summary>Short iterations in rounds: the ratios of a gate are taken from medians.</summary>
    public static IConfig ForGates(GateSuite suite) => Quiet(Job.Default
        .WithWarmupCount(suite.WarmupIterations)
        .WithIterationCount(suite.Iterations)
        .WithIterationTime(TimeInterval.FromMilliseconds(suite.IterationMilliseconds))
        .WithMinInvokeCount(1)
        .WithGcForce(false)
        .WithUnrollFactor(1)
        .WithToolchain(InProcessEmitToolchain.Instance)
        .WithId("Gate"));

    /// <summary>Each benchmark once: whether it works.</summary>
    public static IConfig ForDry() => Quiet(Job.Dry.WithToolchain(InProcessEmitToolchain.Instance));

    /// <summary>BenchmarkDotNet's own defaults and output.</summary>
    public static IConfig ForArguments() => DefaultConfig.Instance
        .AddJob(Job.Default.WithUnrollFactor(1).WithToolchain(InProcessEmitToolchain.Instance).AsDefault());

    private static ManualConfig Quiet(Job job) => ManualConfig.CreateEmpty()
        .AddJob(job)
        .AddDiagnoser(MemoryDiagnoser.Default)
        .AddColumnProvider(DefaultColumnProviders.Instance)
        .AddLogger(NullLogger.Instance)
        .WithArtifactsPath(Path.Combine("artifacts", "benchmarks"));
}
