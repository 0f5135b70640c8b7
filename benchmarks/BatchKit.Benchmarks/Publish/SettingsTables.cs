using BatchKit.Benchmarks.Measuring;
using BatchKit.Benchmarks.Publishers;
using BatchKit.Benchmarks.RawMqtt;
using BatchKit.TestServers.Mosquitto;

namespace BatchKit.Benchmarks.Publish;

/// <summary>What the publisher's and the broker's settings do to the rate of <c>PublishManyAsync</c>.</summary>
internal sealed class SettingsTables
{
    private const int LongTopicBytes = 60;

    private static readonly int[] Windows = [20, 100, 1000];
    private static readonly string[] WindowColumns =
        ["window (max_inflight_messages)", "default", "without TCP_QUICKACK", "set_tcp_nodelay", "without TCP_QUICKACK"];

    private static readonly string[] AliasColumns = ["topic, QoS", "by name", "by alias"];

    private readonly List<string[]> _windows = [];
    private readonly List<string[]> _aliases = [];

    public static SettingsTables Measure(PublisherCast cast, int rounds, TimeSpan duration)
    {
        Console.Error.WriteLine("settings");
        var tables = new SettingsTables();
        var publisher = cast[PublishWay.PublishMany];
        tables.MeasureWindows(publisher, rounds, duration);
        tables.MeasureAliases(publisher, rounds, duration);
        return tables;
    }

    public void Write(TextWriter writer)
    {
        MarkdownTable.Write(writer, "The window: messages a second of PublishManyAsync with QoS 1", WindowColumns, _windows);
        MarkdownTable.Write(writer, "Topic aliases: messages a second of PublishManyAsync, Mosquitto default", AliasColumns, _aliases);
    }

    private void MeasureWindows(IPublisher publisher, int rounds, TimeSpan duration)
    {
        var shape = new PublishShape(Quality: 1, Properties: 0);
        foreach (var window in Windows)
        {
            var cells = new List<string> { $"{window}" };
            foreach (var noDelay in (bool[])[false, true])
            {
                using var stage = new MqttStage($"{window}", new MosquittoServerOptions { Persistence = false, NoDelay = noDelay, MaxInflight = window });
                var targets = ((bool[])[true, false]).Select(atOnce => new PublishTarget(stage.Port, shape) { AcknowledgesAtOnce = atOnce });
                cells.AddRange(Rates(stage, publisher, [.. targets], rounds, duration));
            }

            _windows.Add([.. cells]);
        }
    }

    private void MeasureAliases(IPublisher publisher, int rounds, TimeSpan duration)
    {
        using var stage = new MqttStage("default", new MosquittoServerOptions { Persistence = false });
        foreach (var quality in (int[])[0, 1])
        {
            foreach (var padding in (int[])[0, LongTopicBytes - PublishShape.TopicAt(0).Length])
            {
                var target = new PublishTarget(stage.Port, new PublishShape(quality, Properties: 0)) { TopicPadding = padding };
                var title = $"{PublishShape.TopicAt(0).Length + padding} bytes, QoS {quality}";
                _aliases.Add([title, .. Rates(stage, publisher, [target, target with { Aliases = 10 }], rounds, duration)]);
            }
        }
    }

    private static IEnumerable<string> Rates(MqttStage stage, IPublisher publisher, PublishTarget[] targets, int rounds, TimeSpan duration)
    {
        var guess = targets.Select(target => stage.Run(publisher, target, messages: 2000).Rate).ToArray();
        var rates = targets.Select(_ => new List<double>()).ToArray();
        for (var round = 0; round < rounds; round++)
        {
            for (var index = 0; index < targets.Length; index++)
            {
                var sample = stage.Run(publisher, targets[index], Math.Max(1000, (int)(guess[index] * duration.TotalSeconds)));
                if (sample.Lost == 0)
                    rates[index].Add(sample.Rate);
            }
        }

        return rates.Select(rate => rate.Count == 0 ? "messages lost" : $"{Quantile.Of(rate, 0.5):0}");
    }
}
