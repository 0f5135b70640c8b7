using System.Diagnostics.Metrics;

namespace BatchKit.SignalR;

/// <summary>All instruments of one transport, read from its counters on collection. Hubs, groups and connections are never tags.</summary>
internal sealed class SignalRMetrics : IDisposable
{
    private readonly Meter _meter;

    public SignalRMetrics(SignalRTransport transport, IMeterFactory? meterFactory)
    {
        var options = new MeterOptions("BatchKit");
        _meter = meterFactory?.Create(options) ?? new Meter(options);
        _meter.CreateObservableCounter("batchkit.signalr.writes", () => transport.Limits.Writes, "{write}", "Writes to clients; each has all that waited for the client, up to 64 KiB.");
        _meter.CreateObservableCounter("batchkit.signalr.messages", () => transport.Limits.Messages, "{message}", "Messages in those writes.");
        _meter.CreateObservableCounter("batchkit.signalr.bytes", () => transport.Limits.Bytes, "By", "Bytes in those writes.");
        _meter.CreateObservableCounter("batchkit.signalr.disconnects", () => transport.Limits.CutClients, "{connection}", "Connections that were aborted because their clients did not read.");
        _meter.CreateObservableUpDownCounter("batchkit.signalr.connections", () => transport.Connections, "{connection}", "Connections of hubs on this server.");
    }

    public void Dispose() => _meter.Dispose();
}
