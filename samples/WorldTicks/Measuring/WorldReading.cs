using WorldTicks.Ledger;

namespace WorldTicks.Measuring;

/// <summary>What happened between two snapshots, as a view shows it.</summary>
internal sealed class WorldReading(WorldSnapshot older, WorldSnapshot newer)
{
    public WorldSnapshot Totals => newer;

    public double WrittenPerSecond => PerSecond(newer.Tasks - older.Tasks);

    public double DonePerSecond => PerSecond(newer.Done - older.Done);

    public double? TasksPerSend => newer.Sends == older.Sends ? null : (double)(newer.Tasks - older.Tasks) / (newer.Sends - older.Sends);

    public LatencySummary Latency { get; } = LatencyHistogram.Summarise(newer.Latencies, older.Latencies.Length > 0 ? older.Latencies : null);

    public double DonePerSecondBy(string worker) => PerSecond(newer.ByWorker.GetValueOrDefault(worker).Done - older.ByWorker.GetValueOrDefault(worker).Done);

    private double PerSecond(long count) => newer.At > older.At ? count / (newer.At - older.At).TotalSeconds : 0;
}
