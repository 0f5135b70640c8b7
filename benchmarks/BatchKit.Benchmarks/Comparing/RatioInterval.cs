namespace BatchKit.Benchmarks.Comparing;

/// <summary>The median of ratios, and the interval that holds the true median with a known confidence.</summary>
/// <remarks>
/// The interval of order statistics: each ratio lies above the true median with probability one half, so that the number of those that do is binomial, however the ratios are distributed.
/// It is the narrowest symmetric interval with at least 95 %; fewer than six ratios reach less, with all of them.
/// </remarks>
/// <param name="Median">The median.</param>
/// <param name="Low">The interval's lower end.</param>
/// <param name="High">Its upper end.</param>
/// <param name="Confidence">The probability that the true median is inside.</param>
internal sealed record RatioInterval(double Median, double Low, double High, double Confidence)
{
    private const double Wanted = 0.95;

    /// <exception cref="ArgumentException">There is no ratio.</exception>
    public static RatioInterval Of(IEnumerable<double> ratios)
    {
        var sorted = ratios.Order().ToArray();
        if (sorted.Length == 0)
            throw new ArgumentException("An interval needs a ratio.", nameof(ratios));
        var middle = sorted.Length / 2;
        var median = sorted.Length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
        var cut = 0;
        while (cut + 1 < (sorted.Length + 1) / 2 && ConfidenceWithout(cut + 1, sorted.Length) >= Wanted)
            cut++;
        return new RatioInterval(median, sorted[cut], sorted[^(cut + 1)], ConfidenceWithout(cut, sorted.Length));
    }

    /// <summary>How likely the interval holds the median when so many ratios are left out at each end.</summary>
    private static double ConfidenceWithout(int cut, int count)
    {
        var (chance, tail) = (Math.Pow(0.5, count), 0.0);
        for (var above = 0; above <= cut; above++)
        {
            tail += chance;
            chance *= (count - above) / (above + 1.0);
        }

        return 1 - (2 * tail);
    }
}
