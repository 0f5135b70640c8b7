namespace BatchKit.Benchmarks.Measuring;

/// <summary>Where a share of the values lies below.</summary>
internal static class Quantile
{
    /// <param name="values">At least one.</param>
    /// <param name="share">From 0 to 1.</param>
    public static double Of(IEnumerable<double> values, double share)
    {
        var sorted = values.Order().ToArray();
        var place = share * (sorted.Length - 1);
        var below = (int)place;
        var above = Math.Min(below + 1, sorted.Length - 1);
        return sorted[below] + ((place - below) * (sorted[above] - sorted[below]));
    }
}
