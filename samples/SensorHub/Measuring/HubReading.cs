namespace SensorHub.Measuring;

/// <summary>What happened between two snapshots, as a view shows it.</summary>
internal sealed class HubReading(HubSnapshot older, HubSnapshot newer)
{
    public HubSnapshot Totals => newer;

    public double WrittenPerSecond => PerSecond(newer.Written - older.Written);

    public double ArrivedPerSecond => PerSecond(newer.Arrived - older.Arrived);

    public double SendsPerSecond => PerSecond(newer.Output.Sends - older.Output.Sends);

    public double? MessagesPerBatch => Ratio(newer.Output.Batches - older.Output.Batches);

    public double? MessagesPerSend => Ratio(newer.Output.Sends - older.Output.Sends);

    public LatencySummary Latency { get; } = LatencyHistogram.Summarise(newer.Latencies, older.Latencies);

    private double PerSecond(long count) => newer.At > older.At ? count / (newer.At - older.At).TotalSeconds : 0;

    private double? Ratio(long parts) => parts == 0 ? null : (double)(newer.Output.AcceptedMessages - older.Output.AcceptedMessages) / parts;
}
