using System.Diagnostics.Metrics;

namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>A metric that is updated for each send, and to which someone listens.</summary>
internal sealed class SendCounter : IDisposable
{
    private readonly Meter _meter = new("BatchKit.Benchmarks.Naive");
    private readonly MeterListener _listener = new();
    private readonly Counter<long> _sent;
    private long _counted;

    public SendCounter()
    {
        _sent = _meter.CreateCounter<long>("sent");
        _listener.SetMeasurementEventCallback<long>((_, count, _, _) => Interlocked.Add(ref _counted, count));
        _listener.EnableMeasurementEvents(_sent);
        _listener.Start();
    }

    public void Add() => _sent.Add(1, new KeyValuePair<string, object?>("channel", Payload.Message.Channel));

    public void Dispose()
    {
        _listener.Dispose();
        _meter.Dispose();
    }
}
