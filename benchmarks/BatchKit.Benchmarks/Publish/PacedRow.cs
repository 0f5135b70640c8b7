using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Measuring;
using BatchKit.Benchmarks.Publishers;
using BatchKit.Benchmarks.RawMqtt;

namespace BatchKit.Benchmarks.Publish;

/// <summary>20,000 messages a second with QoS 1 on both sides of a Mosquitto as it is, 160 each 8 ms: how late are they, and what do they cost their publisher?</summary>
internal sealed class PacedRow(PublishWay way, MqttStage stage, PublisherChild publisher)
{
    public static readonly string[] Columns = ["", "messages/s", "p50, ms", "p99, ms", "publisher's CPU, % of a core", "CPU, ns a message", "allocated, B a message", "lost"];

    private const double NanosecondsPerMillisecond = 1e6;

    public static readonly PublishShape Shape = new(Quality: 1, Properties: 5);

    private readonly List<MqttSample> _samples = [];

    public string Name => NameOf(way);

    public static string NameOf(PublishWay way) => $"{nameof(MqttBenchmarks)}.Paced{way}";

    public void WarmUp(TimeSpan duration) => Run(duration);

    public GateReading Measure(TimeSpan duration)
    {
        var sample = Run(duration);
        _samples.Add(sample);
        return new GateReading
        {
            [GateMetric.Median] = sample.Median / NanosecondsPerMillisecond,
            [GateMetric.NinetyNine] = sample.NinetyNine / NanosecondsPerMillisecond,
            [GateMetric.Processor] = sample.ProcessorNanoseconds,
            [GateMetric.Allocated] = sample.AllocatedBytes,
            [GateMetric.Lost] = Math.Abs(sample.Lost),
        };
    }

    public IEnumerable<string> Describe() =>
    [
        $"{way}",
        $"{Median(sample => sample.Rate):0}",
        $"{Median(sample => sample.Median) / NanosecondsPerMillisecond:0.00}",
        $"{Median(sample => sample.NinetyNine) / NanosecondsPerMillisecond:0.00}",
        $"{Median(sample => sample.Usage.ProcessorNanoseconds / (double)sample.Nanoseconds) * 100:0.0}",
        $"{Median(sample => sample.ProcessorNanoseconds):0}",
        $"{Median(sample => sample.AllocatedBytes):0.0}",
        $"{_samples.Sum(sample => sample.Lost)}",
    ];

    private double Median(Func<MqttSample, double> value) => Quantile.Of(_samples.Select(value), 0.5);

    private MqttSample Run(TimeSpan duration) =>
        stage.RunPaced(publisher, new PublishTarget(stage.Port, Shape), Math.Max(1, (int)(duration / PublishCommand.Tick)));
}
