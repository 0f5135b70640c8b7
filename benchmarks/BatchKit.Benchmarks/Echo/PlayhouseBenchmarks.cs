using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.EchoServers;
using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Measuring;

namespace BatchKit.Benchmarks.Echo;

/// <summary>How many records of 1 KB a second come back to 100 connections, of which each has up to 1000 under way?</summary>
/// <remarks>Its own loop and not BenchmarkDotNet's: servers and load are processes of their own.</remarks>
internal sealed class PlayhouseBenchmarks : ISuiteRunner
{
    private const string LongRun = $"{nameof(PlayhouseBenchmarks)}.LongRun";
    private const int LongRunParts = 20;

    private static readonly string[] Columns =
    [
        "", "messages/s", "full: p50, ms", "full: p99, ms", "a tenth: p50, ms", "a tenth: p99, ms", "server CPU, ns a message", "allocated, B a message",
        "Gen0 / 1 / 2 a second",
    ];

    private static readonly string[] LongRunColumns =
        ["seconds", "messages", "in use after a quarter, MB", "in use at the end", "working set at first", "at most", "at the end", "Gen0 / 1 / 2 a second"];

    private readonly List<EchoRow> _rows = [];
    private EchoEndurance? _longRun;

    /// <summary>The clients of each server.</summary>
    public int Connections { get; init; } = 100;

    /// <summary>How many records each client may have under way.</summary>
    public int Window { get; init; } = 1000;

    /// <summary>How long the run for the memory figures is; zero for none.</summary>
    public TimeSpan LongRunDuration { get; init; } = TimeSpan.FromSeconds(60);

    public SuiteReadings Measure(GateSuite suite, bool everything)
    {
        Machine.Require(Connections);
        var readings = new SuiteReadings(WriteTables);
        var kinds = Enum.GetValues<EchoServerKind>();
        var known = kinds.Select(NameOf).Append(LongRun).ToHashSet(StringComparer.Ordinal);
        suite.RefuseUnknown(known.Contains);
        foreach (var kind in kinds.Where(IsMissing))
            readings.Leave(NameOf(kind), NativeProgram.WhyMissing!);
        try
        {
            foreach (var kind in kinds.Where(kind => !IsMissing(kind)))
                _rows.Add(new EchoRow(kind, Connections));
            Run(suite, readings);
        }
        finally
        {
            foreach (var row in _rows)
                row.Dispose();
        }

        return readings;
    }

    private void Run(GateSuite suite, SuiteReadings readings)
    {
        var duration = TimeSpan.FromMilliseconds(suite.IterationMilliseconds);
        foreach (var row in _rows)
            row.RunFull(Window, suite.WarmupIterations * duration);
        for (var round = 1; round <= suite.Rounds; round++)
        {
            Console.Error.WriteLine($"round {round} of {suite.Rounds}");
            for (var turn = 0; turn < _rows.Count; turn++)
            {
                var row = _rows[(round + turn) % _rows.Count];
                readings.Add(NameOf(row.Kind), row.Measure(Window, suite.Iterations * duration));
            }
        }

        if (LongRunDuration == TimeSpan.Zero)
            return;
        Console.Error.WriteLine($"{LongRunDuration.TotalSeconds} s of BatchKit alone");
        _longRun = _rows.Single(row => row.Kind == EchoServerKind.BatchKit).Endure(Window, LongRunDuration, LongRunParts);
        readings.Add(LongRun, _longRun.Reading);
    }

    private static string NameOf(EchoServerKind kind) => $"{nameof(PlayhouseBenchmarks)}.{kind}";

    private static bool IsMissing(EchoServerKind kind) =>
        kind is EchoServerKind.FloorOneThread or EchoServerKind.FloorTwoThreads && NativeProgram.WhyMissing is not null;

    private void WriteTables(TextWriter writer)
    {
        MarkdownTable.WriteMachine(writer);
        MarkdownTable.Write(writer, $"{Connections} connections, {Records.Bytes} B, up to {Window} under way on each", Columns, _rows.Select(row => row.Describe()));
        if (_longRun is not null)
            MarkdownTable.Write(writer, "BatchKit over a long run", LongRunColumns, [_longRun.Describe()]);
    }
}
