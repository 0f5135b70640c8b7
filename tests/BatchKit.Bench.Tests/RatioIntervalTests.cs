using BatchKit.Benchmarks.Comparing;

namespace BatchKit.Bench.Tests;

/// <summary>The interval of order statistics.</summary>
public sealed class RatioIntervalTests
{
    [Fact]
    public void Ten_ratios_leave_out_the_smallest_and_the_largest()
    {
        var interval = RatioInterval.Of([1.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8]);

        Assert.Equal((1.1, 1.8), (interval.Low, interval.High));
        Assert.Equal(1.45, interval.Median, precision: 10);

        // 1 - 2 * (1 + 10) / 1024
        Assert.Equal(0.978515625, interval.Confidence, precision: 10);
    }

    [Theory]
    [InlineData(1, 0.0)]
    [InlineData(2, 0.5)]
    [InlineData(5, 0.9375)]
    [InlineData(6, 0.96875)]
    public void Few_ratios_are_all_in_the_interval_and_the_confidence_says_how_little_they_tell(int count, double confidence)
    {
        var interval = RatioInterval.Of(Enumerable.Range(1, count).Select(static number => (double)number));

        Assert.Equal((1.0, count, confidence), (interval.Low, interval.High, interval.Confidence));
    }

    [Fact]
    public void Of_many_ratios_the_interval_is_the_narrowest_with_95_percent()
    {
        var interval = RatioInterval.Of(Enumerable.Range(1, 100).Select(static number => (double)number));

        // A table of the binomial distribution: the 40th and the 61st have 96.5 %, the 41st and the 60th 94.3 %.
        Assert.Equal((40.0, 61.0), (interval.Low, interval.High));
        Assert.Equal(0.9648, interval.Confidence, precision: 4);
    }
}
