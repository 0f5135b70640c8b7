using System.Diagnostics.Metrics;
using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast;

/// <summary>All instruments of one transport, read from its counters on collection. Connections and groups are never tags, because their number is unbounded.</summary>
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
            "{message}", "Deliveries, a message for one connection each, by outcome.");
        _meter.CreateObservableCounter(
            "batchkit.broadcast.bytes", () => Outcomes.Select(outcome => Measure(transport.Counters[outcome].Bytes, outcome)),
            "By", "Bytes of deliveries on the wire, before compression and encryption.");
        _meter.CreateObservableCounter(
            "batchkit.broadcast.disconnects", () => Reasons.Select(reason => Measure(transport.Connections.DisconnectsFor(reason), reason)),
            "{connection}", "Connections that ended, by reason.");
        _meter.CreateObservableUpDownCounter(
            "batchkit.broadcast.pending", () => transport.GetStatistics().PendingBytes, "By", "Bytes that wait for clients to read.");
        _meter.CreateObservableUpDownCounter(
            "batchkit.broadcast.connections", () => transport.Connections.Count, "{connection}", "Established connections.");
        _meter.CreateObservableUpDownCounter("batchkit.broadcast.slow", () => transport.SlowClients, "{connection}", "Connections whose clients do not keep up with their output.");
        _meter.CreateObservableUpDownCounter("batchkit.broadcast.groups", () => transport.Groups.Count, "{group}", "Groups that have members on this node.");
    }

    public void Dispose() => _meter.Dispose();

    private static Measurement<long> Measure<TReason>(long value, TReason reason)
        where TReason : struct, Enum => new(value, new KeyValuePair<string, object?>("batchkit.reason", reason.ToString()));
}
