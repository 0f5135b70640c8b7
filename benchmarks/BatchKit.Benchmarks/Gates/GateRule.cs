namespace BatchKit.Benchmarks.Gates;

/// <summary>How far a bar may stand from what a quiet machine measured, so that a loss of half the speed, or of an object, falls short. See docs/decisions/0144.</summary>
internal static class GateRule
{
    /// <summary>The most that a ratio may be worse than on a quiet machine.</summary>
    public const double MaxFactor = 1.5;

    // Counts of bytes and frames don't depend on the machine. The timers of a process are in them, and whole bytes are compared.
    private const double CountFactor = 1.05;

    // A figure of 0.00 may be anything below a hundredth.
    private const double Rounding = 0.005;

    /// <summary>What is wrong with a bar; null for nothing.</summary>
    public static string? FindFault(Gate gate)
    {
        if (gate.Max is null == gate.Min is null)
            return "it needs either a max or a min";
        if (gate.Exception is not null)
            return gate.Exception.Length > 0 ? null : "its exception says nothing";
        if (!IsRatio(gate) && !IsCount(gate.Metric))
            return "it is an absolute time or rate: divide it by a row of the same run";
        if (gate.Quiet is not { } quiet)
            return "it does not say what a quiet machine measured";
        var factor = IsCount(gate.Metric) ? CountFactor : MaxFactor;
        if (gate.Max is { } max && max > Largest(quiet, factor, gate))
            return $"its max of {max} is above {factor} times {quiet}";
        return gate.Min is { } min && min < (quiet / factor) - Rounding ? $"its min of {min} is below {quiet} by more than {factor}" : null;
    }

    private static double Largest(double quiet, double factor, Gate gate) =>
        IsRatio(gate) ? (quiet * factor) + Rounding : Math.Ceiling(quiet * factor);

    // Growth is memory as a multiple of the same server's.
    private static bool IsRatio(Gate gate) => gate.IsRatio || gate.Metric == GateMetric.Growth;

    // Resident memory is no count: the collector and the allocator of a machine decide on pages.
    private static bool IsCount(GateMetric metric) =>
        metric is GateMetric.Allocated or GateMetric.Lost or GateMetric.Overflows or GateMetric.Received or GateMetric.Frames or GateMetric.Published or GateMetric.Connections or GateMetric.Gen2 or GateMetric.Stale;
}
