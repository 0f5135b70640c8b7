using System.Diagnostics.Metrics;
using BatchKit.Diagnostics;

namespace BatchKit.SignalR;

/// <summary>All instruments of one transport, read from its counters on collection. Hubs, groups and connections are never tags.</summary>
internal sealed class SignalRMetrics : IDisposable
{
    private readonly ObserverFaults _faults;
    private readonly Meter? _meter;

    public SignalRMetrics(SignalRTransport transport, IMeterFactory? meterFactory, ObserverFaults faults)
    {
        _faults = faults;
        _meter = faults.CreateMeter(meterFactory, [], meter => AddInstruments(meter, transport));
    }

    public void Dispose() => _faults.Dispose(_meter);

    private static void AddInstruments(Meter meter, SignalRTransport transport)
    {
        meter.CreateObservableCounter("batchkit.signalr.writes", () => transport.Limits.Writes, "{write}", "Writes to clients; each has all that waited for the client, up to 64 KiB.");
        meter.CreateObservableCounter("batchkit.signalr.messages", () => transport.Limits.Messages, "{message}", "Messages in those writes.");
        meter.CreateObservableCounter("batchkit.signalr.bytes", () => transport.Limits.Bytes, "By", "Bytes in those writes.");
        meter.CreateObservableCounter("batchkit.signalr.disconnects", () => transport.Limits.CutClients, "{connection}", "Connections that were aborted because their clients did not read.");
        meter.CreateObservableUpDownCounter("batchkit.signalr.connections", () => transport.Connections, "{connection}", "Connections of hubs on this server.");
    }
}
