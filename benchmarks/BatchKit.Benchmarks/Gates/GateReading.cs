using BenchmarkDotNet.Reports;

namespace BatchKit.Benchmarks.Gates;

/// <summary>What one round measured of one benchmark.</summary>
internal readonly record struct GateReading(double Nanoseconds, double AllocatedBytes)
{
    public static GateReading? From(BenchmarkReport report) => report.ResultStatistics is { } statistics
        ? new(statistics.Median, AllocatedByOperation(report))
        : null;

    public double this[GateMetric metric] => metric == GateMetric.Time ? Nanoseconds : AllocatedBytes;

    // BenchmarkDotNet's own figure is rounded to whole bytes an operation, which would hide an object in every hundredth.
    private static double AllocatedByOperation(BenchmarkReport report) =>
        report.GcStats.GetTotalAllocatedBytes(excludeAllocationQuantumSideEffects: false) is { } bytes && report.GcStats.TotalOperations > 0
            ? bytes / (double)report.GcStats.TotalOperations
            : 0;
}
