using BatchKit.Benchmarks.EdgeLoad;
using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Measuring;

namespace BatchKit.Benchmarks.Edge;

/// <summary>
/// One honest player of the MUD beside hostile clients of several kinds: each kind alone where full tables are asked for, and all at once. Then beside players who wait for a broker.
/// </summary>
internal sealed class HostileStage : IEdgeStage
{
    private const string Before = $"{nameof(EdgeBenchmarks)}.Hostile[When=Before]";
    private const string During = $"{nameof(EdgeBenchmarks)}.Hostile[When=During]";
    private const string BeforeSlow = $"{nameof(EdgeBenchmarks)}.Slow[When=Before]";
    private const string DuringSlow = $"{nameof(EdgeBenchmarks)}.Slow[When=During]";
    private const string After = $"{nameof(EdgeBenchmarks)}.Hostile[When=After]";

    private static readonly string[] AttackColumns =
    [
        "attack", "clients", "connections made", "sent, KB/s", "read, KB/s", "server CPU, %", "resident, MB", "of idle", "log, lines", "honest p50, ms", "honest p99, ms", "longest, ms",
    ];

    private static readonly string[] HonestColumns = ["", "honest p50, ms", "honest p99, ms", "longest, ms", "resident, MB", "of idle"];

    private readonly HostileRow[] _alone;
    private readonly HostileRow _all;
    private readonly HostileRow _slow;
    private readonly bool _measuresEachAlone;

    /// <param name="isShort">True for a few clients and little time.</param>
    /// <param name="measuresEachAlone">True to measure each kind of attack by itself too.</param>
    public HostileStage(bool isShort, bool measuresEachAlone)
    {
        int[] clients = isShort ? [3, 3, 1, 1, 0, 0] : [30, 30, 5, 4, 0, 0];
        var (few, full, recovery) = isShort
            ? (TimeSpan.FromSeconds(0.5), TimeSpan.FromSeconds(1), TimeSpan.FromSeconds(0.5))
            : (TimeSpan.FromSeconds(4), TimeSpan.FromSeconds(30), TimeSpan.FromSeconds(5));
        _measuresEachAlone = measuresEachAlone;
        _all = new HostileRow("all at once", "local", clients, few, full, recovery);
        _alone = [.. Enum.GetValues<AttackKind>().Where(kind => clients[(int)kind] > 0)
            .Select(kind => new HostileRow($"{kind}", "local", [.. clients.Select((count, index) => index == (int)kind ? count : 0)], few, few, recovery))];

        // The 99th percentile of fewer lines would be their longest time.
        var half = full / 2;
        _slow = new HostileRow("line by line, and comparing", "memory", [0, 0, 0, 0, 1, 1], half, half, recovery);
    }

    // One attack lasts as long as several rounds of the others.
    public int MaxRounds => 1;

    public IEnumerable<string> Names => [Before, During, After, BeforeSlow, DuringSlow];

    public void Measure(SuiteReadings readings)
    {
        if (_measuresEachAlone)
            Array.ForEach(_alone, row => row.Measure());
        var sample = _all.Measure();
        readings.Add(Before, Reading(sample.Before, sample.Before));
        readings.Add(During, Reading(sample.During, sample.Before));
        readings.Add(After, Reading(sample.After, sample.Before));
        var slow = _slow.Measure();
        readings.Add(BeforeSlow, Reading(slow.Before, slow.Before));
        readings.Add(DuringSlow, Reading(slow.During, slow.Before));
    }

    public void WriteTables(TextWriter writer)
    {
        MarkdownTable.Write(
            writer, "Hostile clients of the MUD: what they sent, and what it cost", AttackColumns,
            _alone.Append(_all).Append(_slow).Where(row => row.Samples.Count > 0).Select(row => row.Describe()));
        MarkdownTable.Write(writer, "The honest player and the MUD's memory", HonestColumns, _all.DescribeHonest());
        MarkdownTable.Write(
            writer, "The honest player beside one whose output is sent line by line and one who compares, over the simulated broker", HonestColumns, _slow.DescribeHonest());
    }

    private static GateReading Reading(HostilePhase phase, HostilePhase idle) => new()
    {
        [GateMetric.Median] = phase.Honest.Median,
        [GateMetric.NinetyNine] = phase.Honest.NinetyNine,
        [GateMetric.Growth] = phase.ResidentBytes / idle.ResidentBytes,
    };
}
