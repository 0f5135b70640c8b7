using System.Globalization;

namespace BatchKit.Benchmarks.Gates;

/// <summary>A gate and what its rounds measured.</summary>
internal sealed record GateResult(Gate Gate, IReadOnlyList<double> Rounds)
{
    /// <summary>The median of the rounds.</summary>
    public double Measured { get; } = Median(Rounds);

    public bool IsOk => Gate.Holds(Measured);

    public string Verdict => IsOk ? "ok" : "short";

    public string Figure => Text(Measured) + Unit;

    public string Bound => Gate.Max is { } max ? $"<= {Text(max)}{Unit}" : $">= {Text(Gate.Min ?? 0)}{Unit}";

    public string Spread => $"{Text(Rounds.Min())} to {Text(Rounds.Max())}";

    private string Unit => Gate.IsRatio ? "x" : Gate.Metric == GateMetric.Time ? " ns" : " B";

    private static string Text(double value) => value.ToString(Math.Abs(value) >= 100 ? "0" : "0.00", CultureInfo.InvariantCulture);

    private static double Median(IReadOnlyList<double> values)
    {
        var sorted = values.Order().ToArray();
        var middle = sorted.Length / 2;
        return sorted.Length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
    }
}
