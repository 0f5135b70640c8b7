using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Measuring;
using BatchKit.Benchmarks.Publishers;
using BatchKit.Benchmarks.RawMqtt;
using BatchKit.TestServers.Network;

namespace BatchKit.Benchmarks.Publish;

/// <summary>What an MQTTnet server brings to a subscriber, by the way messages are injected into it.</summary>
internal sealed class ServerTable
{
    private static readonly string[] Columns = ["", "QoS", "user properties", "topics", "messages/s", "of the loop", "CPU, ns a message", "allocated, B a message", "lost"];

    private readonly List<string[]> _rows = [];

    // What the gates are about; the other shapes are for the reader.
    private static readonly PublishShape GateShape = new(Quality: 1, Properties: 2);

    public static string NameOf(PublishWay way) => $"{nameof(MqttBenchmarks)}.{way}[QoS={GateShape.Quality}, Properties={GateShape.Properties}, Topics=20000 retained]";

    /// <param name="cast">The publishers.</param>
    /// <param name="rounds">How often each way is measured.</param>
    /// <param name="duration">For how long.</param>
    /// <param name="readings">Where what the gates are about goes.</param>
    /// <param name="everything">False leaves out the shapes that no gate is about.</param>
    public static ServerTable Measure(PublisherCast cast, int rounds, TimeSpan duration, SuiteReadings readings, bool everything)
    {
        Console.Error.WriteLine("MQTTnet's server");
        var table = new ServerTable();
        table.MeasureShape(cast, GateShape, isRetained: true, rounds, duration, readings);
        if (!everything)
            return table;
        foreach (var isRetained in (bool[])[false, true])
        {
            foreach (var shape in (PublishShape[])[new(Quality: 0, Properties: 0), new(Quality: 1, Properties: 0)])
                table.MeasureShape(cast, shape, isRetained, Math.Min(rounds, 3), duration, readings: null);
        }

        return table;
    }

    public void Write(TextWriter writer)
    {
        if (_rows.Count > 0)
            MarkdownTable.Write(writer, "MQTTnet's server, in the process that has the messages", Columns, _rows);
    }

    // The ways take turns, so that what else the machine does meets all of them.
    private void MeasureShape(PublisherCast cast, PublishShape shape, bool isRetained, int rounds, TimeSpan duration, SuiteReadings? readings)
    {
        ServerRow[] rows = [.. cast.Ways.Where(way => way >= PublishWay.MqttNetInjectLoop).Select(way => new ServerRow(way, cast[way], shape, isRetained, duration))];
        try
        {
            for (var round = 0; round < rounds; round++)
                Array.ForEach(rows, row => row.Measure(readings));
            _rows.AddRange(rows.Select(row => row.ToCells(rows[0])));
        }
        finally
        {
            Array.ForEach(rows, row => row.Dispose());
        }
    }
}

/// <summary>One way to inject, with a server and a subscriber of its own.</summary>
internal sealed class ServerRow : IDisposable
{
    private const int RetainedTopics = 20_000;
    private const int FirstMessages = 10_000;

    // Enough for the just-in-time compiler to finish with what the messages run through.
    private const int WarmUpMessages = 100_000;

    private readonly PublishWay _way;
    private readonly IPublisher _publisher;
    private readonly PublishTarget _target;
    private readonly MqttStage _stage;
    private readonly int _messages;
    private readonly List<MqttSample> _samples = [];

    public ServerRow(PublishWay way, IPublisher publisher, PublishShape shape, bool isRetained, TimeSpan duration)
    {
        (_way, _publisher) = (way, publisher);
        _target = new PublishTarget(FreePort.Take(1)[0], shape) { IsRetained = isRetained, Topics = isRetained ? RetainedTopics : 1 };

        // The server starts with its first message, and its topics fill before a client subscribes.
        publisher.Run(_target, isRetained ? RetainedTopics : 1);
        _stage = new MqttStage($"{way}", _target.Port, shape.Quality);
        _stage.Run(publisher, _target, WarmUpMessages);
        _messages = Math.Max(FirstMessages, (int)(_stage.Run(publisher, _target, FirstMessages).Rate * duration.TotalSeconds));
    }

    public void Measure(SuiteReadings? readings)
    {
        var sample = _stage.Run(_publisher, _target, _messages);
        _samples.Add(sample);
        readings?.Add(ServerTable.NameOf(_way), new GateReading { [GateMetric.Rate] = sample.Rate, [GateMetric.Lost] = Math.Abs(sample.Lost) });
    }

    /// <param name="loop">What the rates are compared with, round by round.</param>
    public string[] ToCells(ServerRow loop) =>
    [
        $"{_way}", $"{_target.Shape.Quality}", $"{_target.Shape.Properties}", _target.IsRetained ? $"{RetainedTopics}, retained" : "1",
        $"{Quantile.Of(_samples.Select(sample => sample.Rate), 0.5):0}",
        $"{Quantile.Of(_samples.Select((sample, round) => sample.Rate / loop._samples[round].Rate), 0.5):0.00}",
        $"{Quantile.Of(_samples.Select(sample => sample.ProcessorNanoseconds), 0.5):0}",
        $"{Quantile.Of(_samples.Select(sample => sample.AllocatedBytes), 0.5):0}",
        $"{_samples.Sum(sample => sample.Lost)}",
    ];

    public void Dispose() => _stage.Dispose();
}
