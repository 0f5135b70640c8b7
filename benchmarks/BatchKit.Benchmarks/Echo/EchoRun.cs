namespace BatchKit.Benchmarks.Echo;

/// <summary>What came back in one run.</summary>
/// <param name="Records">How many records.</param>
/// <param name="Nanoseconds">In how long.</param>
/// <param name="Median">The time of a round trip that half of them stayed below, in nanoseconds.</param>
/// <param name="NinetyNine">The one that 99 of 100 stayed below.</param>
internal readonly record struct EchoRun(double Records, double Nanoseconds, double Median, double NinetyNine)
{
    private const double NanosecondsPerSecond = 1e9;

    public double Rate => Records / Nanoseconds * NanosecondsPerSecond;

    public static EchoRun From(long[] report) => new(report[0], report[1], report[2], report[3]);
}
