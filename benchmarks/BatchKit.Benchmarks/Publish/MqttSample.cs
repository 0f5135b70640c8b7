namespace BatchKit.Benchmarks.Publish;

/// <summary>One run: what its publisher says, and what its subscriber got.</summary>
/// <param name="Messages">How many were published.</param>
/// <param name="Arrived">How many came.</param>
/// <param name="Nanoseconds">From the first publish until the last message and acknowledgement was there.</param>
/// <param name="Usage">The publisher's.</param>
/// <param name="Median">In nanoseconds, where messages are timed.</param>
/// <param name="NinetyNine">In nanoseconds.</param>
internal readonly record struct MqttSample(int Messages, long Arrived, long Nanoseconds, PublishUsage Usage, long Median, long NinetyNine)
{
    private const double NanosecondsPerSecond = 1e9;

    public long Lost => Messages - Arrived;

    public double Rate => Messages / (double)Nanoseconds * NanosecondsPerSecond;

    public double ProcessorNanoseconds => Usage.ProcessorNanoseconds / (double)Messages;

    public double AllocatedBytes => Usage.AllocatedBytes / (double)Messages;

    public static MqttSample From(int messages, PublishUsage usage, long[] arrivals)
    {
        var began = usage.BeganAt == 0 ? arrivals[1] : usage.BeganAt;
        return new MqttSample(messages, arrivals[0], Math.Max(1, Math.Max(arrivals[2], usage.EndedAt) - began), usage, arrivals[3], arrivals[4]);
    }
}
