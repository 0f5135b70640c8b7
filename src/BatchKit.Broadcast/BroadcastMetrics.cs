using System.Diagnostics.Metrics;
using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast;

/// <summary>All instruments of one transport, read from its counters when somebody listens. Connections and groups are never tags: their number has no bound.</summary>
internal sealed class BroadcastMetrics : IDisposable
{
    private const string MeterName = "BatchKit";

    private static readonly DeliveryOutcome[] Outcomes = Enum.GetValues<DeliveryOutcome>();
    private static readonly DisconnectReason[] Reasons = Enum.GetValues<DisconnectReason>();

    private readonly Meter _meter;

    public BroadcastMetrics(BroadcastTransport transport, int node, IMeterFactory? meterFactory)
    {
        var options = new MeterOptions(MeterName) { Tags = [new("batchkit.node", node)] };
        _meter = meterFactory?.Create(options) ?? new Meter(options);
        _meter.CreateObservableCounter(
            "batchkit.broadcast.messages", () => Outcomes.Select(outcome => Measure(transport.Counters[outcome].Messages, outcome)),
            "{message}", "Messages for one connection each, by what became of them.");
        _meter.CreateObservableCounter(
            "batchkit.broadcast.bytes", () => Outcomes.Select(outcome => Measure(transport.Counters[outcome].Bytes, outcome)),
            "By", "Their bytes on the wire, before compression and encryption.");
        _meter.CreateObservableCounter(
            "batchkit.broadcast.disconnects", () => Reasons.Select(reason => Measure(transport.Connections.DisconnectsFor(reason), reason)),
            "{connection}", "Connections that ended, by the reason.");
        _meter.CreateObservableUpDownCounter(
            "batchkit.broadcast.pending", () => transport.GetStatistics().PendingBytes, "By", "What waits for clients to read.");
        _meter.CreateObservableUpDownCounter(
            "batchkit.broadcast.connections", () => transport.Connections.Count, "{connection}", "Connections that are established.");
        _meter.CreateObservableUpDownCounter("batchkit.broadcast.groups", () => transport.Groups.Count, "{group}", "Groups that have members here.");
    }

    public void Dispose() => _meter.Dispose();

    private static Measurement<long> Measure<TReason>(long value, TReason reason)
        where TReason : struct, Enum => new(value, new KeyValuePair<string, object?>("batchkit.reason", reason.ToString()));
}
