using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.Gates;

namespace BatchKit.Benchmarks.Echo;

/// <summary>What a long run showed.</summary>
/// <param name="WorkingSets">The server's memory at each part's end, in bytes, with what waits for the collector.</param>
/// <param name="LiveAfterQuarter">The bytes in use after a quarter of it.</param>
/// <param name="LiveAtEnd">The bytes in use at its end.</param>
/// <param name="Runs">The parts.</param>
/// <param name="Usage">What the server used in all.</param>
internal sealed record EchoEndurance(
    IReadOnlyList<double> WorkingSets, double LiveAfterQuarter, double LiveAtEnd, IReadOnlyList<EchoRun> Runs, ServerUsage Usage)
{
    private const double NanosecondsPerSecond = 1e9;
    private const double BytesPerMegabyte = 1024 * 1024;

    public double Seconds => Runs.Sum(run => run.Nanoseconds) / NanosecondsPerSecond;

    public GateReading Reading => new()
    {
        [GateMetric.Gen2] = Usage.Gen2 / Seconds,
        [GateMetric.Growth] = LiveAtEnd / LiveAfterQuarter,
        [GateMetric.Rate] = Runs.Sum(run => run.Records) / Seconds,
    };

    public IEnumerable<string> Describe() =>
    [
        $"{Seconds:0}", $"{Runs.Sum(run => run.Records):0}",
        $"{LiveAfterQuarter / BytesPerMegabyte:0.0}", $"{LiveAtEnd / BytesPerMegabyte:0.0}",
        $"{WorkingSets[0] / BytesPerMegabyte:0.0}", $"{WorkingSets.Max() / BytesPerMegabyte:0.0}", $"{WorkingSets[^1] / BytesPerMegabyte:0.0}",
        $"{Usage.Gen0 / Seconds:0.00} / {Usage.Gen1 / Seconds:0.00} / {Usage.Gen2 / Seconds:0.00}",
    ];
}
