using System.Diagnostics.Metrics;
using System.Net.Sockets;

namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>For each subscriber a task, a serialisation, an awaited send and a count, which somebody listens to.</summary>
internal sealed class NaiveServer : IFanoutServer
{
    private readonly AcceptedSockets _sockets = new();
    private readonly Meter _meter = new("BatchKit.Benchmarks.Naive");
    private readonly MeterListener _listener = new();
    private readonly Counter<long> _sent;
    private Socket[] _snapshot = [];
    private long _counted;

    public NaiveServer()
    {
        _sent = _meter.CreateCounter<long>("sent");
        _listener.SetMeasurementEventCallback<long>((_, count, _, _) => Interlocked.Add(ref _counted, count));
        _listener.EnableMeasurementEvents(_sent);
        _listener.Start();
    }

    public int Clients => _sockets.Count;

    public Task<int> StartAsync() => Task.FromResult(_sockets.Start());

    public void Send(FanoutWorkload workload)
    {
        if (_snapshot.Length != Clients)
            _snapshot = _sockets.Snapshot;
        Task.WaitAll([.. _snapshot.Select(socket => Task.Run(() => SendAsync(socket)))]);
    }

    public ValueTask DisposeAsync()
    {
        _listener.Dispose();
        _meter.Dispose();
        _sockets.Dispose();
        return default;
    }

    private async Task SendAsync(Socket socket)
    {
        await socket.SendAsync(Payload.Message.Serialise());
        _sent.Add(1, new KeyValuePair<string, object?>("channel", Payload.Message.Channel));
    }
}
