using BenchmarkDotNet.Reports;

namespace BatchKit.Benchmarks.Gates;

/// <summary>What one round measured of one benchmark.</summary>
internal sealed class GateReading
{
    // What a run of BenchmarkDotNet 0.14 allocates for itself is some 5 kB.
    private const long OwnBytes = 8 * 1024;

    private readonly Dictionary<GateMetric, double> _values = [];

    /// <exception cref="InvalidOperationException">The benchmark does not measure that.</exception>
    public double this[GateMetric metric]
    {
        get => _values.TryGetValue(metric, out var value) ? value : throw new InvalidOperationException($"A gate's benchmark has no {metric}.");
        init => _values[metric] = value;
    }

    /// <remarks>The time is the lower quartile: others' load on the machine only ever adds, so a busy one moves it less than the median.</remarks>
    public static GateReading? From(BenchmarkReport report) => report.ResultStatistics is { } statistics
        ? new() { [GateMetric.Time] = statistics.Q1, [GateMetric.Allocated] = AllocatedByOperation(report) }
        : null;

    // BenchmarkDotNet's own figure is rounded to whole bytes an operation, which would hide an object in every hundredth.
    private static double AllocatedByOperation(BenchmarkReport report) =>
        report.GcStats.GetTotalAllocatedBytes(excludeAllocationQuantumSideEffects: false) is { } bytes && report.GcStats.TotalOperations > 0
            ? Math.Max(0, bytes - OwnBytes) / (double)report.GcStats.TotalOperations
            : 0;
}
