using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Measuring;

namespace BatchKit.Benchmarks.Fanout;

/// <summary>How long does a message of 200 bytes take to all subscribers of one channel, and what does it cost the server?</summary>
/// <remarks>Its own loop and not BenchmarkDotNet's: the time ends in another process, and each server is one too, so that what it uses can be told.</remarks>
internal sealed class BroadcastBenchmarks : ISuiteRunner
{
    private const int MixedRounds = 3;

    private static readonly string[] Columns =
    [
        "", "subscribers", "broadcasts", "call p50, ms", "last byte p50, ms", "p95", "p99", "deliveries/ms", "server CPU, ms", "allocated, B", "Gen0 / 1 / 2 a second",
    ];

    private readonly List<FanoutRow> _rows = [];
    private readonly List<MixedRow> _mixed = [];

    /// <summary>The sizes that are compared. A process may have 20,000 files where these were chosen; 19,500 stand for 25,000.</summary>
    public IReadOnlyList<int> Sizes { get; init; } = [1_000, 10_000, 19_500];

    /// <summary>Whether messages to single clients beside a broadcast are measured too, for the tables.</summary>
    public bool IsMixed { get; init; } = true;

    public SuiteReadings Measure(GateSuite suite, bool everything)
    {
        Machine.Require(Sizes.Max());
        var readings = new SuiteReadings(WriteTables);
        var known = Sizes.SelectMany(size => BenchmarksFor(size).Select(benchmark => benchmark.NameFor(size))).ToHashSet(StringComparer.Ordinal);
        suite.RefuseUnknown(known.Contains);
        foreach (var size in Sizes)
            MeasureSize(size, suite, readings);
        if (everything && IsMixed)
            MeasureMixed(suite);
        return readings;
    }

    private IEnumerable<FanoutBenchmark> BenchmarksFor(int size) => FanoutBenchmark.All.Where(one => !one.IsForMostOnly || size == Sizes[^1]);

    private void MeasureSize(int size, GateSuite suite, SuiteReadings readings)
    {
        Console.Error.WriteLine($"{size} subscribers");
        foreach (var benchmark in BenchmarksFor(size).Where(one => one.WhyMissing is not null))
            readings.Leave(benchmark.NameFor(size), benchmark.WhyMissing!);
        using var stage = new FanoutStage(size, BenchmarksFor(size).Where(one => one.WhyMissing is null));
        _rows.AddRange(stage.Rows);

        // Fewer subscribers take less time, so that more broadcasts fit into a round.
        var factor = Math.Clamp(Sizes[^1] / size, 1, 10);
        stage.WarmUp(suite.WarmupIterations);
        for (var round = 1; round <= suite.Rounds; round++)
        {
            Console.Error.WriteLine($"round {round} of {suite.Rounds}");
            stage.Run(round, suite.Iterations * factor, readings);
        }
    }

    private void MeasureMixed(GateSuite suite)
    {
        Console.Error.WriteLine("single clients beside a broadcast");
        using var stage = new MixedStage(Sizes[^1]);
        _mixed.AddRange(stage.Measure(Math.Min(suite.Rounds, MixedRounds), TimeSpan.FromMilliseconds(suite.IterationMilliseconds)));
    }

    private void WriteTables(TextWriter writer)
    {
        MarkdownTable.WriteMachine(writer);
        foreach (var size in _rows.GroupBy(row => row.Subscribers))
            MarkdownTable.Write(writer, $"{size.Key} subscribers", Columns, size.Select(row => row.Describe()));
        if (_mixed.Count > 0)
            MarkdownTable.Write(writer, "Single clients beside a broadcast to all", MixedRow.Columns, _mixed.Select(row => row.Describe()));
    }
}
