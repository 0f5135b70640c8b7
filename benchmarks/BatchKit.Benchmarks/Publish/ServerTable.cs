using BatchKit.Benchmarks.Measuring;
using BatchKit.Benchmarks.Publishers;
using BatchKit.Benchmarks.RawMqtt;
using BatchKit.TestServers.Network;

namespace BatchKit.Benchmarks.Publish;

/// <summary>What an MQTTnet server brings to a subscriber, by the way messages are injected into it.</summary>
internal sealed class ServerTable
{
    private const int RetainedTopics = 20_000;
    private const int FirstMessages = 1000;

    private static readonly string[] Columns = ["", "QoS", "topics", "messages/s", "CPU, ns a message", "allocated, B a message", "lost"];

    private readonly List<string[]> _rows = [];

    public static ServerTable Measure(PublisherCast cast, int rounds, TimeSpan duration)
    {
        Console.Error.WriteLine("MQTTnet's server");
        var table = new ServerTable();
        foreach (var isRetained in (bool[])[false, true])
        {
            foreach (var quality in (int[])[0, 1])
            {
                foreach (var way in cast.Ways.Where(way => way >= PublishWay.MqttNetInjectLoop))
                    table.MeasureRow(way, cast[way], new PublishShape(quality, Properties: 0), isRetained, rounds, duration);
            }
        }

        return table;
    }

    public void Write(TextWriter writer)
    {
        if (_rows.Count > 0)
            MarkdownTable.Write(writer, "MQTTnet's server, in the process that has the messages", Columns, _rows);
    }

    private void MeasureRow(PublishWay way, IPublisher publisher, PublishShape shape, bool isRetained, int rounds, TimeSpan duration)
    {
        var target = new PublishTarget(FreePort.Take(1)[0], shape) { IsRetained = isRetained, Topics = isRetained ? RetainedTopics : 1 };

        // The server starts with its first message, and its topics fill before anybody subscribes.
        publisher.Run(target, isRetained ? RetainedTopics : 1);
        using var stage = new MqttStage($"{way}", target.Port, shape.Quality);
        var rate = stage.Run(publisher, target, FirstMessages).Rate;
        var samples = Enumerable.Range(0, rounds)
            .Select(_ => stage.Run(publisher, target, Math.Max(FirstMessages, (int)(rate * duration.TotalSeconds)))).ToArray();
        _rows.Add(
        [
            $"{way}", $"{shape.Quality}", isRetained ? $"{RetainedTopics}, retained" : "1",
            $"{Quantile.Of(samples.Select(sample => sample.Rate), 0.5):0}",
            $"{Quantile.Of(samples.Select(sample => sample.ProcessorNanoseconds), 0.5):0}",
            $"{Quantile.Of(samples.Select(sample => sample.AllocatedBytes), 0.5):0}",
            $"{samples.Sum(sample => sample.Lost)}",
        ]);
    }
}
