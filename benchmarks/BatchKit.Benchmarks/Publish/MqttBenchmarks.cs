using BatchKit.Benchmarks.Configuration;
using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Measuring;
using BatchKit.Benchmarks.Publishers;
using BatchKit.Benchmarks.RawMqtt;
using BatchKit.TestServers.Mosquitto;
using BatchKit.TestServers.Network;

namespace BatchKit.Benchmarks.Publish;

/// <summary>How many messages of 100 bytes a second come over a Mosquitto, by the way they are published, and how late are 20,000 a second?</summary>
/// <remarks>Its own loop and not BenchmarkDotNet's: publisher, broker and subscriber are processes of their own, so that what each costs can be told.</remarks>
internal sealed class MqttBenchmarks : ISuiteRunner
{
    private const string WideBroker = "inflight";

    private static readonly string[] Cells = ["messages/s", "of the floor", "CPU, ns a message", "allocated, B a message", "lost"];

    // With a window of 1000 only the ways that have more than one message under way, and only with QoS 1, differ from the default.
    private static readonly PublishWay[] WindowWays =
        [PublishWay.Floor, PublishWay.PublishMany, PublishWay.Scope, PublishWay.MosquittoPub, PublishWay.MqttNetPipelined, PublishWay.MqttNetPublishMany];

    private readonly List<MqttRow> _rows = [];
    private readonly List<PacedRow> _paced = [];
    private SettingsTables? _settings;
    private ServerTable? _servers;

    /// <summary>Why nothing of it can run here; null when it can.</summary>
    public static string? WhyUnfit => Machine.WhyUnfit ?? (RunSettings.Server is null ? MosquittoServer.WhyNotInstalled : null);

    /// <summary>Only one of the brokers and shapes, to see that everything works.</summary>
    public bool IsShort { get; init; }

    /// <summary>Only one broker, with its own settings, and no servers of other libraries.</summary>
    public bool IsOneBroker { get; init; }

    public SuiteReadings Measure(GateSuite suite, bool everything)
    {
        if (WhyUnfit is { } reason)
            throw new InvalidOperationException(reason);
        var readings = new SuiteReadings(WriteTables);
        RefuseUnknown(suite);
        var ways = Enum.GetValues<PublishWay>().ToDictionary(way => way, WhyMissing);
        foreach (var (way, whyMissing) in ways.Where(way => way.Value is not null))
        {
            Console.Error.WriteLine($"left out {way}: {whyMissing}");
            Leave(readings, way, whyMissing!);
        }

        using var cast = new PublisherCast(ways.Where(way => way.Value is null).Select(way => way.Key));
        var duration = TimeSpan.FromMilliseconds(suite.IterationMilliseconds);
        MeasureRates(suite, cast, duration, readings);
        MeasurePaced(suite, cast, duration, readings);
        if (IsOneBroker)
            return readings;
        _servers = ServerTable.Measure(cast, suite.Rounds, suite.Iterations * duration, readings, everything && !IsShort);
        _settings = IsShort || !everything ? null : SettingsTables.Measure(cast, Math.Min(suite.Rounds, 3), suite.Iterations * duration);
        return readings;
    }

    private static IEnumerable<PublishWay> PacedWays => [PublishWay.Floor, PublishWay.Scope, PublishWay.MqttNetPipelined, PublishWay.MqttNetPublishMany];

    private (string Name, MosquittoServerOptions Options)[] Brokers => IsShort || IsOneBroker
        ? [("default", new MosquittoServerOptions { Persistence = false })]
        :
        [
            ("default", new MosquittoServerOptions { Persistence = false }),
            ("nodelay", new MosquittoServerOptions { Persistence = false, NoDelay = true }),
            (WideBroker, new MosquittoServerOptions { Persistence = false, MaxInflight = 1000 }),
        ];

    private PublishShape[] Shapes => IsShort ? [new(0, 0), new(1, 5)] : [new(0, 0), new(0, 5), new(1, 0), new(1, 5)];

    private static bool IsMeasured(PublishWay way, string broker, PublishShape shape) => broker != WideBroker || (shape.Quality > 0 && WindowWays.Contains(way));

    private static string? WhyMissing(PublishWay way) => way != PublishWay.MosquittoPub ? null : RunSettings.Clients > 1 ? "it is one client" : MosquittoPub.WhyMissing;

    private void MeasureRates(GateSuite suite, PublisherCast cast, TimeSpan duration, SuiteReadings readings)
    {
        var stages = new List<MqttStage>();
        try
        {
            foreach (var (name, options) in Brokers)
                stages.Add(new MqttStage(name, options));
            _rows.AddRange(
                from stage in stages
                from shape in Shapes
                from way in cast.Ways
                where way < PublishWay.MqttNetInjectLoop && IsMeasured(way, stage.Name, shape)
                select new MqttRow(way, stage, shape, cast[way]));
            Console.Error.WriteLine("warming up");
            foreach (var row in _rows)
                row.WarmUp(suite.WarmupIterations * duration);
            RunInTurn(suite, _rows, row => readings.Add(row.Name, row.Measure(suite.Iterations * duration)));
        }
        finally
        {
            stages.ForEach(stage => stage.Dispose());
        }
    }

    private void MeasurePaced(GateSuite suite, PublisherCast cast, TimeSpan duration, SuiteReadings readings)
    {
        Console.Error.WriteLine("20,000 messages a second");
        using var stage = new MqttStage(Brokers[0].Name, Brokers[0].Options);
        stage.Subscribe(quality: 1);
        _paced.AddRange(PacedWays.Where(cast.Ways.Contains).Select(way => new PacedRow(way, stage, (PublisherChild)cast[way])));
        using var server = IsOneBroker ? null : StartServer(cast);
        if (server is not null)
            _paced.Add(new PacedRow(PublishWay.MqttNetInjectManyBatched, server, (PublisherChild)cast[PublishWay.MqttNetInjectManyBatched]));
        foreach (var row in _paced)
            row.WarmUp(suite.WarmupIterations * duration);

        // A longer look than at a rate: one in a hundred messages is the figure.
        RunInTurn(suite, _paced, row => readings.Add(row.Name, row.Measure(4 * suite.Iterations * duration)));
    }

    // The server is a part of its publisher, and starts with the first message.
    private static MqttStage StartServer(PublisherCast cast)
    {
        var port = FreePort.Take(1)[0];
        cast[PublishWay.MqttNetInjectManyBatched].Run(new PublishTarget(port, PacedRow.Shape), messages: 1);
        return new MqttStage("MQTTnet's server", port, quality: 1);
    }

    /// <summary>All rows work in turn, so that a noisy moment hits all of them, and the first of a round is another one each time.</summary>
    private static void RunInTurn<TRow>(GateSuite suite, List<TRow> rows, Action<TRow> measure)
    {
        for (var round = 1; round <= suite.Rounds; round++)
        {
            Console.Error.WriteLine($"round {round} of {suite.Rounds}");
            for (var turn = 0; turn < rows.Count; turn++)
                measure(rows[(round + turn) % rows.Count]);
        }
    }

    private IEnumerable<string> NamesOf(PublishWay way) =>
        (from broker in Brokers from shape in Shapes where IsMeasured(way, broker.Name, shape) select MqttRow.NameOf(way, broker.Name, shape)).Append(PacedRow.NameOf(way)).Append(ServerTable.NameOf(way));

    private void Leave(SuiteReadings readings, PublishWay way, string reason)
    {
        foreach (var name in NamesOf(way))
            readings.Leave(name, reason);
    }

    private void RefuseUnknown(GateSuite suite)
    {
        var known = Enum.GetValues<PublishWay>().SelectMany(NamesOf).ToHashSet(StringComparer.Ordinal);
        suite.RefuseUnknown(known.Contains);
    }

    private void WriteTables(TextWriter writer)
    {
        MarkdownTable.WriteMachine(writer);
        foreach (var group in _rows.GroupBy(row => (row.Stage.Name, row.Shape)))
        {
            var floor = group.Single(row => row.Way == PublishWay.Floor);
            var broker = group.Key.Name == WideBroker ? "with max_inflight_messages 1000" : group.Key.Name;
            var title = $"{RunSettings.Server?.GetComponents(UriComponents.SchemeAndServer | UriComponents.Path, UriFormat.UriEscaped) ?? $"Mosquitto {broker}"}, QoS {group.Key.Shape.Quality}, {group.Key.Shape.Properties} user properties";
            MarkdownTable.Write(writer, title, ["", .. Cells], group.Select(row => row.Describe(floor).Prepend($"{row.Way}")));
        }

        MarkdownTable.Write(writer, "20,000 messages a second: 160 each 8 ms, QoS 1, 5 user properties", PacedRow.Columns, _paced.Select(row => row.Describe()));
        _servers?.Write(writer);
        _settings?.Write(writer);
    }
}
