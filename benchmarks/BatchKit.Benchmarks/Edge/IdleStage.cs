using System.Diagnostics;
using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.FanoutServers;
using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.IdleServers;
using BatchKit.Benchmarks.Measuring;
using BatchKit.Benchmarks.Sink;

namespace BatchKit.Benchmarks.Edge;

/// <summary>What a silent client costs a server in memory, before it got anything and behind some broadcasts.</summary>
/// <param name="clients">How many there are.</param>
/// <param name="isShort">True for little time: the figures then mean nothing.</param>
internal sealed class IdleStage(int clients, bool isShort) : IEdgeStage
{
    private static readonly string[] Columns = ["server", "clients", "resident, B a client", "behind three broadcasts"];

    private readonly IdleRow[] _rows = Array.ConvertAll(Enum.GetValues<IdleServerKind>(), kind => new IdleRow(kind, clients, isShort ? TimeSpan.FromMilliseconds(100) : Rest));

    // Longer than a buffer holds a handle to which nothing is written.
    private static readonly TimeSpan Rest = TimeSpan.FromSeconds(3);

    // The memory of ten thousand clients hardly differs from round to round.
    public int MaxRounds => 1;

    public IEnumerable<string> Names => _rows.SelectMany(row => new[] { row.Name, row.NameBehind });

    public void Measure(SuiteReadings readings)
    {
        foreach (var row in _rows)
        {
            if (row.WhyMissing is { } reason)
            {
                readings.Leave(row.Name, reason);
                readings.Leave(row.NameBehind, reason);
                continue;
            }

            var (silent, behind) = row.Measure();
            readings.Add(row.Name, new GateReading { [GateMetric.Resident] = silent });
            readings.Add(row.NameBehind, new GateReading { [GateMetric.Resident] = behind });
        }
    }

    public void WriteTables(TextWriter writer) =>
        MarkdownTable.Write(writer, "Silent clients", Columns, _rows.Where(row => row.WhyMissing is null).Select(row => row.Describe()));
}

/// <summary>The silent clients of one server. Both are new processes each time.</summary>
internal sealed class IdleRow(IdleServerKind kind, int clients, TimeSpan rest)
{
    private const int WarmUpClients = 2_000;
    private const int WarmUpBroadcasts = 40;
    private const int Broadcasts = 3;

    private static readonly TimeSpan JoinLimit = TimeSpan.FromSeconds(60);

    private readonly List<(double Silent, double Behind)> _samples = [];

    public string Name => $"{nameof(EdgeBenchmarks)}.Idle[Server={kind}]";

    public string NameBehind => $"{nameof(EdgeBenchmarks)}.IdleBehindBroadcasts[Server={kind}]";

    public string? WhyMissing => kind == IdleServerKind.UWebSockets ? UWebSocketsProgram.WhyMissing : null;

    private SinkProtocol Protocol => kind switch
    {
        IdleServerKind.BatchKitWebSocket or IdleServerKind.Kestrel or IdleServerKind.UWebSockets => SinkProtocol.WebSocket,
        IdleServerKind.SignalR => SinkProtocol.SignalR,
        _ => SinkProtocol.Tcp,
    };

    private int MessageBytes => kind == IdleServerKind.SignalR ? SignalRServer.MessageBytes : Payload.Bytes;

    public (double Silent, double Behind) Measure()
    {
        using var server = kind == IdleServerKind.UWebSockets
            ? ChildProcess.StartProgram(UWebSocketsProgram.Build(), $"{Payload.Bytes}")
            : ChildProcess.Start("idle", $"{kind}");
        var port = server.Read()[0];
        WarmUp(server, port);
        var before = server.Ask("memory")[0];
        using var sink = Connect(server, port, clients);
        Thread.Sleep(rest);
        var silent = server.Ask("memory")[0];
        Broadcast(server, sink, Broadcasts);
        Thread.Sleep(rest);
        var behind = server.Ask("memory")[0];
        _samples.Add(((silent - before) / (double)clients, (behind - before) / (double)clients));
        return _samples[^1];
    }

    /// <summary>The row's cells in the table.</summary>
    public IEnumerable<string> Describe()
    {
        yield return $"{kind}";
        yield return $"{clients}";
        yield return $"{Quantile.Of(_samples.Select(sample => sample.Silent), 0.5):0}";
        yield return $"{Quantile.Of(_samples.Select(sample => sample.Behind), 0.5):0}";
    }

    // So that code, pools and threads count for no client.
    private void WarmUp(ChildProcess server, long port)
    {
        using (var sink = Connect(server, port, Math.Min(clients, WarmUpClients)))
            Broadcast(server, sink, WarmUpBroadcasts);
        Await(server, count => count == 0);
        Thread.Sleep(rest);
    }

    private ChildProcess Connect(ChildProcess server, long port, int count)
    {
        var sink = ChildProcess.Start("sink");
        sink.Ask($"connect {(int)Protocol} {port} {count}");
        Await(server, joined => joined >= count);
        sink.Ask("settle");
        return sink;
    }

    private void Broadcast(ChildProcess server, ChildProcess sink, int times)
    {
        for (var broadcast = 0; broadcast < times; broadcast++)
        {
            sink.Ask($"expect {MessageBytes}");
            server.Write("run 0");
            sink.Read();
            server.Read();
        }
    }

    private void Await(ChildProcess server, Func<long, bool> isReached)
    {
        var began = Stopwatch.GetTimestamp();
        while (!isReached(server.Ask("count")[0]))
        {
            if (Stopwatch.GetElapsedTime(began) > JoinLimit)
                throw new InvalidOperationException($"{kind}: {server.Ask("count")[0]} clients of {clients} after {JoinLimit.TotalSeconds} s.");
            Thread.Sleep(20);
        }
    }
}
