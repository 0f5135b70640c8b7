using BatchKit.Benchmarks.Configuration;
using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Measuring;
using BatchKit.Benchmarks.Publishers;
using BatchKit.Benchmarks.RawMqtt;

namespace BatchKit.Benchmarks.Publish;

/// <summary>One way to publish one shape to one broker, and all that was measured of it.</summary>
internal sealed class MqttRow(PublishWay way, MqttStage stage, PublishShape shape, IPublisher publisher)
{
    private const int FirstMessages = 1000;
    private const int MaxTries = 5;

    // A run's own task and report; without it a short run would show it as parts of a byte a message.
    private const int OwnBytes = 1024;

    private readonly List<MqttSample> _samples = [];
    private double _rate;
    private long _lost;

    public PublishWay Way => way;

    public PublishShape Shape => shape;

    public MqttStage Stage => stage;

    public string Name => NameOf(way, stage.Name, shape);

    public double Rate => Quantile.Of(_samples.Select(sample => sample.Rate), 0.5);

    public static string NameOf(PublishWay way, string stage, PublishShape shape) =>
        $"{nameof(MqttBenchmarks)}.{way}[Broker={stage}, QoS={shape.Quality}, Properties={shape.Properties}]";

    /// <summary>Lets the compiler come to its last tier, and sees how fast it goes.</summary>
    public void WarmUp(TimeSpan duration)
    {
        _rate = Run(FirstMessages).Rate;

        // The best of the three: a machine that stands still for a moment would leave the row with a thousand messages a run, which tells little.
        _rate = Math.Max(_rate, Run(MessagesIn(duration / 4)).Rate);
        _rate = Math.Max(_rate, Run(MessagesIn(duration)).Rate);
    }

    public GateReading Measure(TimeSpan duration)
    {
        var sample = Run(MessagesIn(duration));
        _samples.Add(sample);
        return new GateReading
        {
            [GateMetric.Rate] = sample.Rate,
            [GateMetric.Allocated] = Math.Max(0, sample.Usage.AllocatedBytes - OwnBytes) / (double)sample.Messages,
            [GateMetric.Processor] = sample.ProcessorNanoseconds,
        };
    }

    /// <summary>The row's cells: messages a second, its part of the floor's, and what a message costs the publisher.</summary>
    public IEnumerable<string> Describe(MqttRow floor)
    {
        var isMeasured = way != PublishWay.MosquittoPub;
        yield return $"{Rate:0}";
        yield return $"{Rate / floor.Rate:0.00}";
        yield return isMeasured ? $"{Quantile.Of(_samples.Select(sample => sample.ProcessorNanoseconds), 0.5):0}" : "";
        yield return isMeasured ? $"{Quantile.Of(_samples.Select(sample => sample.AllocatedBytes), 0.5):0.0}" : "";
        yield return $"{_lost}";
    }

    /// <summary>Runs once more where Mosquitto dropped something: a rate with a loss is none.</summary>
    private MqttSample Run(int messages)
    {
        for (var attempt = 1; ; attempt++)
        {
            var sample = stage.Run(publisher, new PublishTarget(stage.Port, shape), messages);
            if (sample.Lost == 0)
                return sample;
            _lost += Math.Abs(sample.Lost);
            if (attempt == MaxTries)
                throw new InvalidOperationException($"{Name}: of {messages} messages {sample.Arrived} arrived, and in {MaxTries - 1} runs before not all either.");
        }
    }

    private int MessagesIn(TimeSpan duration) => RunSettings.Count ?? Math.Clamp((int)(_rate * duration.TotalSeconds / 1000), 1, 2000) * 1000;
}
