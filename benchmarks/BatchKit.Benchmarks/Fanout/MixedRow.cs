namespace BatchKit.Benchmarks.Fanout;

/// <summary>How long messages to single clients took, in nanoseconds.</summary>
internal sealed record MixedRow(string Name, long Messages, long Broadcasts, long Median, long NinetyNine, long Longest)
{
    private const double NanosecondsPerMillisecond = 1e6;

    public static IReadOnlyList<string> Columns { get; } = ["", "messages", "broadcasts meanwhile", "p50, ms", "p99, ms", "longest, ms"];

    public IEnumerable<string> Describe() =>
    [
        Name, $"{Messages}", $"{Broadcasts}",
        $"{Median / NanosecondsPerMillisecond:0.000}", $"{NinetyNine / NanosecondsPerMillisecond:0.00}", $"{Longest / NanosecondsPerMillisecond:0.0}",
    ];
}
