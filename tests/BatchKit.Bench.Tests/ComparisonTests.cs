using BatchKit.Benchmarks.Comparing;

namespace BatchKit.Bench.Tests;

public sealed class ComparisonTests
{
    [Theory]
    [InlineData(2, 3, 1.5)]
    [InlineData(0, 0, 1.0)]
    [InlineData(0, 0.5, null)]
    [InlineData(0.5, 0, null)]
    public void A_ratio_is_a_number_or_left_out(double before, double after, double? ratio) => Assert.Equal(ratio, Comparison.RatioOf(before, after));
}
