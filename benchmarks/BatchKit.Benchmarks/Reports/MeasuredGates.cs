using BatchKit.Benchmarks.Gates;

namespace BatchKit.Benchmarks.Reports;

/// <summary>Makes the gates that what was measured would just hold.</summary>
internal static class MeasuredGates
{
    // Two decimals are compared, so a smaller ratio is turned round.
    private const double SmallestRatio = 0.1;

    /// <param name="rows">The benchmarks of one class.</param>
    /// <param name="baseline">The method that times are divided by, with the same parameters.</param>
    public static IReadOnlyList<Gate> From(IReadOnlyList<ReportRow> rows, string baseline)
    {
        var gates = new List<Gate>();
        foreach (var row in rows)
        {
            var floor = rows.FirstOrDefault(other => other.Method == baseline && other.Parameters == row.Parameters);
            if (floor is not null && floor != row && row.Time > 0 && floor.Time > 0)
                gates.Add(RatioOf(row, floor));
            if (row.Allocated is { } bytes)
                gates.Add(new Gate { Name = $"{NameOf(row)}, allocated", Numerator = row.Name, Metric = GateMetric.Allocated, Max = bytes, Quiet = bytes });
        }

        return gates;
    }

    private static Gate RatioOf(ReportRow row, ReportRow floor)
    {
        var isSmall = row.Time / floor.Time < SmallestRatio;
        var (numerator, denominator) = isSmall ? (floor, row) : (row, floor);
        var ratio = numerator.Time!.Value / denominator.Time!.Value;
        return new Gate
        {
            Name = $"{NameOf(numerator)} / {denominator.Method}",
            Numerator = numerator.Name,
            Denominator = denominator.Name,
            Metric = GateMetric.Time,
            Max = isSmall ? null : Math.Round(ratio * GateRule.MaxFactor, 2),
            Min = isSmall ? Math.Round(ratio / GateRule.MaxFactor, 2) : null,
            Quiet = Math.Round(ratio, 2),
        };
    }

    private static string NameOf(ReportRow row) => row.Parameters.Length == 0 ? row.Method : $"{row.Method} {row.Parameters}";
}
