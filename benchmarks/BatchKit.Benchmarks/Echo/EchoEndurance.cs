using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.Gates;

namespace BatchKit.Benchmarks.Echo;

/// <summary>What a long run showed.</summary>
/// <param name="Memory">The server's working set at each part's end, in bytes.</param>
/// <param name="Runs">The parts.</param>
/// <param name="Usage">What the server used in all.</param>
internal sealed record EchoEndurance(IReadOnlyList<double> Memory, IReadOnlyList<EchoRun> Runs, ServerUsage Usage)
{
    private const double NanosecondsPerSecond = 1e9;
    private const double BytesPerMegabyte = 1024 * 1024;

    public double Seconds => Runs.Sum(run => run.Nanoseconds) / NanosecondsPerSecond;

    /// <summary>The first quarter is for the pools to fill.</summary>
    public GateReading Reading => new()
    {
        [GateMetric.Gen2] = Usage.Gen2 / Seconds,
        [GateMetric.Growth] = Memory[^1] / Memory[Memory.Count / 4],
        [GateMetric.Rate] = Runs.Sum(run => run.Records) / Seconds,
    };

    public IEnumerable<string> Describe() =>
    [
        $"{Seconds:0}", $"{Runs.Sum(run => run.Records):0}",
        $"{Memory[0] / BytesPerMegabyte:0.0}", $"{Memory[Memory.Count / 4] / BytesPerMegabyte:0.0}",
        $"{Memory.Max() / BytesPerMegabyte:0.0}", $"{Memory[^1] / BytesPerMegabyte:0.0}",
        $"{Usage.Gen0 / Seconds:0.00} / {Usage.Gen1 / Seconds:0.00} / {Usage.Gen2 / Seconds:0.00}",
    ];
}
