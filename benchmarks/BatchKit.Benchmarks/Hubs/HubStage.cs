using System.Diagnostics;
using System.Globalization;
using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.HubNodes;
using BatchKit.Benchmarks.Sink;

namespace BatchKit.Benchmarks.Hubs;

/// <summary>The servers of a hub and the sink with their clients, each a process of its own. The first server sends.</summary>
internal sealed class HubStage : IDisposable
{
    // What a stuck client's sockets and the server's hold: 4 and 6 MB with Linux's defaults. A loop is 0.12 MB.
    private const int LoopsUntilStuck = 150;

    private const double NanosecondsPerMillisecond = 1e6;

    private static readonly TimeSpan JoinLimit = TimeSpan.FromSeconds(30);

    private readonly List<ChildProcess> _servers = [];
    private readonly ChildProcess _sink;
    private SinkClient? _stuck;

    /// <param name="isBatchKit">Whether hubs send through a buffer; SignalR as it comes otherwise.</param>
    /// <param name="redis">The backplane of two servers; null for one server alone.</param>
    /// <param name="clients">The clients of each server.</param>
    /// <param name="hasStuck">Whether one more does not read.</param>
    public HubStage(bool isBatchKit, string? redis, int clients, bool hasStuck = false)
    {
        _sink = ChildProcess.Start("sink");
        try
        {
            var prefix = $"hubs-{Guid.NewGuid():n}";
            for (var node = 1; node <= (redis is null ? 1 : 2); node++)
            {
                var server = ChildProcess.Start("hub", $"{isBatchKit}", node.ToString(CultureInfo.InvariantCulture), redis ?? HubNodeCommand.Alone, prefix);
                _servers.Add(server);
                var port = (int)server.Read()[0];
                _sink.Ask($"connect {(int)SinkProtocol.SignalR} {port} {clients}");
                AwaitClients(server, clients);
                if (hasStuck)
                    Stick(server, port, clients);
            }
        }
        catch
        {
            Dispose();
            throw;
        }
    }

    /// <summary>Sends a loop, and waits until each client has all of it.</summary>
    /// <returns>Milliseconds until the loop had ended, and until the last byte was read.</returns>
    public (double Call, double LastByte) Run(HubSending sending)
    {
        _sink.Ask($"expect {HubNodeCommand.LoopBytes}");
        _servers[0].Write($"send {(int)sending}");
        var lastByteAt = _sink.Read()[0];
        var call = _servers[0].Read();
        return ((call[1] - call[0]) / NanosecondsPerMillisecond, (lastByteAt - call[0]) / NanosecondsPerMillisecond);
    }

    public void Dispose()
    {
        _stuck?.Dispose();
        _sink.Dispose();
        foreach (var server in _servers)
            server.Dispose();
    }

    private static void AwaitClients(ChildProcess server, int clients)
    {
        var began = Stopwatch.GetTimestamp();
        while (server.Ask("count")[0] is var joined && joined < clients)
        {
            if (Stopwatch.GetElapsedTime(began) > JoinLimit)
                throw new InvalidOperationException($"{joined} of {clients} clients joined within {JoinLimit.TotalSeconds} s.");
            Thread.Sleep(20);
        }
    }

    /// <summary>Connects a client that reads nothing after its handshake, and sends until its sockets are full.</summary>
    private void Stick(ChildProcess server, int port, int clients)
    {
        _stuck = new SinkClient(SinkProtocol.SignalR, port);
        var buffer = new byte[4096];
        while (!_stuck.IsReady)
            _stuck.Read(buffer);
        AwaitClients(server, clients + 1);
        for (var loop = 0; loop < LoopsUntilStuck; loop++)
            Run(HubSending.Scope);
    }
}
