using BatchKit.Benchmarks.EdgeLoad;
using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Measuring;

namespace BatchKit.Benchmarks.Edge;

/// <summary>One honest player of the MUD beside hostile clients of several kinds: each kind alone where full tables are asked for, and all at once.</summary>
internal sealed class HostileStage : IEdgeStage
{
    private const string Before = $"{nameof(EdgeBenchmarks)}.Hostile[When=Before]";
    private const string During = $"{nameof(EdgeBenchmarks)}.Hostile[When=During]";
    private const string After = $"{nameof(EdgeBenchmarks)}.Hostile[When=After]";

    private static readonly string[] AttackColumns =
    [
        "attack", "clients", "connections made", "sent, KB/s", "read, KB/s", "server CPU, %", "resident, MB", "of idle", "log, lines", "honest p50, ms", "honest p99, ms", "longest, ms",
    ];

    private static readonly string[] HonestColumns = ["", "honest p50, ms", "honest p99, ms", "longest, ms", "resident, MB", "of idle"];

    private readonly HostileRow[] _alone;
    private readonly HostileRow _all;
    private readonly bool _measuresEachAlone;

    /// <param name="isShort">True for a few clients and little time.</param>
    /// <param name="measuresEachAlone">True to measure each kind of attack by itself too.</param>
    public HostileStage(bool isShort, bool measuresEachAlone)
    {
        int[] clients = isShort ? [3, 3, 1, 1] : [30, 30, 5, 4];
        var (few, full, recovery) = isShort
            ? (TimeSpan.FromSeconds(0.5), TimeSpan.FromSeconds(1), TimeSpan.FromSeconds(0.5))
            : (TimeSpan.FromSeconds(4), TimeSpan.FromSeconds(30), TimeSpan.FromSeconds(5));
        _measuresEachAlone = measuresEachAlone;
        _all = new HostileRow("all at once", clients, few, full, recovery);
        _alone = [.. Enum.GetValues<AttackKind>().Select(kind => new HostileRow($"{kind}", [.. clients.Select((count, index) => index == (int)kind ? count : 0)], few, few, recovery))];
    }

    // One attack lasts as long as several rounds of the others.
    public int MaxRounds => 1;

    public IEnumerable<string> Names => [Before, During, After];

    public void Measure(SuiteReadings readings)
    {
        if (_measuresEachAlone)
            Array.ForEach(_alone, row => row.Measure());
        var sample = _all.Measure();
        readings.Add(Before, Reading(sample.Before, sample.Before));
        readings.Add(During, Reading(sample.During, sample.Before));
        readings.Add(After, Reading(sample.After, sample.Before));
    }

    public void WriteTables(TextWriter writer)
    {
        MarkdownTable.Write(
            writer, "Hostile clients of the MUD: what they sent, and what it cost", AttackColumns,
            _alone.Append(_all).Where(row => row.Samples.Count > 0).Select(row => row.Describe()));
        MarkdownTable.Write(writer, "The honest player and the MUD's memory", HonestColumns, _all.DescribeHonest());
    }

    private static GateReading Reading(HostilePhase phase, HostilePhase idle) => new()
    {
        [GateMetric.Median] = phase.Honest.Median,
        [GateMetric.NinetyNine] = phase.Honest.NinetyNine,
        [GateMetric.Growth] = phase.ResidentBytes / idle.ResidentBytes,
    };
}
