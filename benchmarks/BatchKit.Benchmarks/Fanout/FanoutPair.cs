using System.Diagnostics;
using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.FanoutServers;
using BatchKit.Benchmarks.Sink;

namespace BatchKit.Benchmarks.Fanout;

/// <summary>A server and the sink with its clients, each a process of its own.</summary>
internal sealed class FanoutPair : IDisposable
{
    private const double NanosecondsPerMillisecond = 1e6;

    private static readonly TimeSpan JoinLimit = TimeSpan.FromSeconds(30);

    private readonly FanoutServerKind _kind;
    private readonly int _port;
    private int _clients;

    public FanoutPair(FanoutServerKind kind, int subscribers)
    {
        _kind = kind;
        Server = kind switch
        {
            FanoutServerKind.Floor => ChildProcess.StartProgram(NativeProgram.Build("fanout"), $"{Payload.Bytes}"),
            FanoutServerKind.Ring => RingProgram.Start(),
            FanoutServerKind.UWebSockets => ChildProcess.StartProgram(UWebSocketsProgram.Build(), $"{Payload.Bytes}"),
            _ => ChildProcess.Start("fanout", $"{kind}", $"{subscribers}"),
        };
        _port = (int)Server.Read()[0];
        Sink = StartSink(subscribers);
    }

    public ChildProcess Server { get; }

    public ChildProcess Sink { get; }

    /// <summary>Connects clients that a sink of its own reads.</summary>
    public ChildProcess StartSink(int clients)
    {
        var protocol = _kind switch
        {
            FanoutServerKind.Naive or FanoutServerKind.Kestrel or FanoutServerKind.BatchKitWebSocket or FanoutServerKind.UWebSockets => SinkProtocol.WebSocket,
            FanoutServerKind.SignalR => SinkProtocol.SignalR,
            _ => SinkProtocol.Tcp,
        };
        var sink = ChildProcess.Start("sink");
        sink.Ask($"connect {(int)protocol} {_port} {clients}");
        _clients += clients;
        AwaitClients();
        sink.Ask("settle");
        return sink;
    }

    /// <summary>Sends once, and waits until everybody has read everything.</summary>
    public FanoutSample Run(FanoutBenchmark benchmark)
    {
        Sink.Ask($"expect {benchmark.Bytes}");
        Server.Write($"run {(int)benchmark.Workload}");
        var lastByteAt = Sink.Read()[0];
        var call = Server.Read();
        return new FanoutSample((call[1] - call[0]) / NanosecondsPerMillisecond, (lastByteAt - call[0]) / NanosecondsPerMillisecond);
    }

    public void Dispose()
    {
        Sink.Dispose();
        Server.Dispose();
    }

    private void AwaitClients()
    {
        var began = Stopwatch.GetTimestamp();
        while (Server.Ask("count")[0] < _clients)
        {
            if (Stopwatch.GetElapsedTime(began) > JoinLimit)
                throw new InvalidOperationException($"{_kind}: {Server.Ask("count")[0]} of {_clients} clients joined within {JoinLimit.TotalSeconds} s.");
            Thread.Sleep(20);
        }
    }
}
