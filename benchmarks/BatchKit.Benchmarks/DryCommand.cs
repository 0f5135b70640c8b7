using BatchKit.Benchmarks.Configuration;
using BenchmarkDotNet.Running;

namespace BatchKit.Benchmarks;

/// <summary><c>dry</c>: runs every benchmark once, to see that it works.</summary>
internal static class DryCommand
{
    public static int Run()
    {
        var classes = Catalog.Classes.Select(type => type.Name).ToArray();
        var failed = 0;
        foreach (var report in BenchmarkRunner.Run(Catalog.Find(classes, RunConfiguration.ForDry(), _ => true)).SelectMany(summary => summary.Reports))
        {
            Console.WriteLine($"{(report.Success ? "ok    " : "FAILED")} {Catalog.NameOf(report.BenchmarkCase)}");
            failed += report.Success ? 0 : 1;
        }

        Console.WriteLine(failed == 0 ? "All benchmarks work." : $"{failed} benchmarks failed; their output is under artifacts/benchmarks.");
        return failed == 0 ? 0 : 1;
    }
}
