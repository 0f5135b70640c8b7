namespace BatchKit.Benchmarks.Publish;

/// <summary>What a publisher says of one run.</summary>
/// <param name="BeganAt">Before the first publish, in nanoseconds; zero where it is not known.</param>
/// <param name="EndedAt">When all was with the broker.</param>
/// <param name="ProcessorNanoseconds">Of its process.</param>
/// <param name="AllocatedBytes">In its process.</param>
internal readonly record struct PublishUsage(long BeganAt, long EndedAt, long ProcessorNanoseconds, long AllocatedBytes)
{
    public static PublishUsage From(long[] report) => new(report[0], report[1], report[2], report[3]);
}
