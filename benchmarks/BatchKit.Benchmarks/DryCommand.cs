using System.Reflection;
using BatchKit.Benchmarks.Brokers;
using BatchKit.Benchmarks.Configuration;
using BatchKit.TestServers.RabbitMQ;
using BenchmarkDotNet.Running;

namespace BatchKit.Benchmarks;

/// <summary><c>dry</c>: runs every benchmark once, to see that it works.</summary>
internal static class DryCommand
{
    public static int Run()
    {
        var runs = Catalog.Find([.. Catalog.Classes.Where(CanRun).Select(type => type.Name)], RunConfiguration.ForDry(), _ => true);
        var failed = 0;
        foreach (var report in BenchmarkRunner.Run(runs).SelectMany(summary => summary.Reports))
        {
            Console.WriteLine($"{(report.Success ? "ok    " : "FAILED")} {Catalog.NameOf(report.BenchmarkCase)}");
            failed += report.Success ? 0 : 1;
        }

        Console.WriteLine(failed == 0 ? "All benchmarks that ran work." : $"{failed} benchmarks failed; their output is under artifacts/benchmarks.");
        return failed == 0 ? 0 : 1;
    }

    private static bool CanRun(Type type)
    {
        if (type.GetCustomAttribute<NeedsRabbitMqAttribute>() is null || RabbitMqServer.WhyMissing is not { } reason)
            return true;
        Console.WriteLine($"left out {type.Name}: {reason}");
        return false;
    }
}
