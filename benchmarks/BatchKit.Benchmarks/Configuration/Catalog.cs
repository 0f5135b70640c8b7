using System.Reflection;
using BenchmarkDotNet.Attributes;
using BenchmarkDotNet.Configs;
using BenchmarkDotNet.Running;

namespace BatchKit.Benchmarks.Configuration;

/// <summary>The benchmarks of this program, by name.</summary>
internal static class Catalog
{
    /// <summary>Every class that has benchmarks.</summary>
    public static Type[] Classes { get; } =
    [
        .. typeof(Catalog).Assembly.GetTypes()
            .Where(type => type is { IsPublic: true, IsAbstract: false } && type.GetMethods().Any(IsBenchmark))
            .OrderBy(type => type.Name, StringComparer.Ordinal),
    ];

    /// <summary>The benchmarks of some classes whose names are wanted.</summary>
    public static BenchmarkRunInfo[] Find(IReadOnlyList<string> classes, IConfig config, Func<string, bool> isWanted) =>
    [
        .. Classes.Where(type => classes.Contains(type.Name, StringComparer.Ordinal))
            .Select(type => BenchmarkConverter.TypeToBenchmarks(type, config))
            .Select(run => new BenchmarkRunInfo([.. run.BenchmarksCases.Where(one => isWanted(NameOf(one)))], run.Type, run.Config))
            .Where(run => run.BenchmarksCases.Length > 0),
    ];

    /// <summary>The name that <c>gates.json</c> uses.</summary>
    public static string NameOf(BenchmarkCase benchmark) =>
        $"{benchmark.Descriptor.Type.Name}.{benchmark.Descriptor.WorkloadMethod.Name}{benchmark.Parameters.DisplayInfo}";

    private static bool IsBenchmark(MethodInfo method) => method.GetCustomAttribute<BenchmarkAttribute>() is not null;
}
