using System.Diagnostics.Metrics;
using BatchKit.Broadcast.Connections;
using BatchKit.Diagnostics;

namespace BatchKit.Broadcast;

/// <summary>All instruments of one transport, read from its counters on collection. Connections and groups are never tags, because their number is unbounded.</summary>
internal sealed class BroadcastMetrics : IDisposable
{
    private static readonly DeliveryOutcome[] Outcomes = Enum.GetValues<DeliveryOutcome>();
    private static readonly DisconnectReason[] Reasons = Enum.GetValues<DisconnectReason>();

    private readonly ObserverFaults _faults;
    private readonly Meter? _meter;

    public BroadcastMetrics(BroadcastTransport transport, int node, IMeterFactory? meterFactory)
    {
        _faults = transport.LoggerFaults;
        _meter = _faults.CreateMeter(meterFactory, [new("batchkit.node", node)], meter => AddInstruments(meter, transport));
    }

    public void Dispose() => _faults.Dispose(_meter);

    private static void AddInstruments(Meter meter, BroadcastTransport transport)
    {
        meter.CreateObservableCounter(
            "batchkit.broadcast.messages", () => Outcomes.Select(outcome => Measure(transport.Counters[outcome].Messages, outcome)),
            "{message}", "Deliveries, a message for one connection each, by outcome.");
        meter.CreateObservableCounter(
            "batchkit.broadcast.bytes", () => Outcomes.Select(outcome => Measure(transport.Counters[outcome].Bytes, outcome)),
            "By", "Bytes of deliveries on the wire, before compression and encryption.");
        meter.CreateObservableCounter(
            "batchkit.broadcast.disconnects", () => Reasons.Select(reason => Measure(transport.Connections.DisconnectsFor(reason), reason)),
            "{connection}", "Connections that ended, by reason.");
        meter.CreateObservableUpDownCounter(
            "batchkit.broadcast.pending", () => transport.GetStatistics().PendingBytes, "By", "Bytes that wait for clients to read.");
        meter.CreateObservableUpDownCounter(
            "batchkit.broadcast.connections", () => transport.Connections.Count, "{connection}", "Established connections.");
        meter.CreateObservableUpDownCounter("batchkit.broadcast.slow", () => transport.SlowClients, "{connection}", "Connections whose clients do not keep up with their output.");
        meter.CreateObservableUpDownCounter("batchkit.broadcast.groups", () => transport.Groups.Count, "{group}", "Groups that have members on this node.");
    }

    private static Measurement<long> Measure<TReason>(long value, TReason reason)
        where TReason : struct, Enum => new(value, new KeyValuePair<string, object?>("batchkit.reason", reason.ToString()));
}
