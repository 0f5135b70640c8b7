using System.Globalization;

namespace BatchKit.Benchmarks.Gates;

/// <summary>A gate and what its rounds measured.</summary>
internal sealed record GateResult(Gate Gate, IReadOnlyList<double> Rounds)
{
    /// <summary>The median of the rounds.</summary>
    public double Measured { get; } = Median(Rounds);

    /// <summary>Why one of its benchmarks can't run on this machine; null when it was measured.</summary>
    public string? WhyMissing { get; init; }

    public bool IsOk => WhyMissing is not null || Gate.Holds(Measured);

    public string Verdict => WhyMissing is not null ? $"left out: {WhyMissing}" : IsOk ? "ok" : "short";

    public string Figure => WhyMissing is not null ? "-" : Text(Measured) + Unit;

    public string Bound => BoundOf(Gate);

    public string Spread => WhyMissing is not null ? "-" : $"{Text(Rounds.Min())} to {Text(Rounds.Max())}";

    private string Unit => UnitOf(Gate);

    public static string BoundOf(Gate gate) => gate.Max is { } max ? $"<= {Text(max)}{UnitOf(gate)}" : $">= {Text(gate.Min ?? 0)}{UnitOf(gate)}";

    private static string UnitOf(Gate gate) => gate.IsRatio ? "x" : gate.Metric switch
    {
        GateMetric.Time => " ns",
        GateMetric.Allocated or GateMetric.Resident or GateMetric.Received or GateMetric.Held => " B",
        GateMetric.LastByte or GateMetric.Call or GateMetric.Processor or GateMetric.Median or GateMetric.NinetyNine or GateMetric.Greeted => " ms",
        GateMetric.Growth => "x",
        GateMetric.Lost or GateMetric.Overflows or GateMetric.Frames or GateMetric.Published or GateMetric.Buffers or GateMetric.Connections or GateMetric.Stale => "",
        _ => "/s",
    };

    private static string Text(double value) => value.ToString(Math.Abs(value) >= 100 ? "0" : "0.00", CultureInfo.InvariantCulture);

    private static double Median(IReadOnlyList<double> values)
    {
        if (values.Count == 0)
            return double.NaN;
        var sorted = values.Order().ToArray();
        var middle = sorted.Length / 2;
        return sorted.Length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
    }
}
