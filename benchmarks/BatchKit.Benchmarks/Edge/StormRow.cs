using System.Diagnostics;
using System.Globalization;
using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.EdgeServers;
using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Measuring;
using BatchKit.Benchmarks.Sink;

namespace BatchKit.Benchmarks.Edge;

/// <summary>A storm on one server: both are new processes each time.</summary>
internal sealed class StormRow(EdgeServerKind kind, int clients)
{
    public const int Threads = 8;

    private const int WarmUpClients = 500;
    private const double NanosecondsPerMicrosecond = 1e3;

    private static readonly TimeSpan AcceptLimit = TimeSpan.FromSeconds(60);

    private readonly List<(double Accepted, double Greeted, double Overflows, ServerUsage Usage)> _samples = [];

    public string Name => $"{nameof(EdgeBenchmarks)}.{kind}";

    private bool IsGreeting => kind != EdgeServerKind.BareAccept;

    private bool IsWebSocket => kind is EdgeServerKind.KestrelWebSocket or EdgeServerKind.BatchKitWebSocket;

    public GateReading Measure()
    {
        using var server = ChildProcess.Start("edge", $"{kind}", "0");
        var port = server.Read()[0];
        WarmUp(server, port);
        using var storm = ChildProcess.Start("storm");
        var (before, overflows, known) = (ServerUsage.Ask(server), ListenOverflows.Read(), server.Ask("count")[0]);
        var began = Connect(storm, port, clients);
        var greeted = IsGreeting ? Milliseconds(began, storm.Ask("greet")[0]) : 0;
        var accepted = Milliseconds(began, AwaitAll(server, known + clients));
        var sample = (accepted, greeted, Overflows: (double)(ListenOverflows.Read() - overflows), Usage: ServerUsage.Ask(server) - before);
        _samples.Add(sample);
        return new GateReading
        {
            [GateMetric.Rate] = clients * 1000.0 / (IsWebSocket ? greeted : accepted),
            [GateMetric.Greeted] = greeted,
            [GateMetric.Overflows] = sample.Overflows,
        };
    }

    /// <summary>The row's cells in the table.</summary>
    public IEnumerable<string> Describe()
    {
        var accepted = Quantile.Of(_samples.Select(sample => sample.Accepted), 0.5);
        yield return $"{kind}";
        yield return $"{clients}";
        yield return $"{accepted:0}";
        yield return $"{clients * 1000.0 / accepted:0}";
        yield return !IsGreeting ? "" : $"{Quantile.Of(_samples.Select(sample => sample.Greeted), 0.5):0}";
        yield return $"{_samples.Max(sample => sample.Overflows):0}";
        yield return $"{Quantile.Of(_samples.Select(sample => sample.Usage.ProcessorNanoseconds), 0.5) / clients / NanosecondsPerMicrosecond:0}";
        yield return $"{Quantile.Of(_samples.Select(sample => sample.Usage.AllocatedBytes), 0.5) / clients:0}";
    }

    public static double Milliseconds(long from, long to) => Stopwatch.GetElapsedTime(from, to).TotalMilliseconds;

    // A storm meets a server that has run for a while: its code is compiled.
    private void WarmUp(ChildProcess server, long port)
    {
        var few = Math.Min(clients, WarmUpClients);
        using var storm = ChildProcess.Start("storm");
        Connect(storm, port, few);
        if (IsGreeting)
            storm.Ask("greet");
        AwaitAll(server, few);
    }

    private long Connect(ChildProcess storm, long port, int count) =>
        storm.Ask($"connect {(int)(IsWebSocket ? SinkProtocol.WebSocket : SinkProtocol.Tcp)} {port} {count} {Threads}")[0];

    /// <returns>When the last client was accepted.</returns>
    private long AwaitAll(ChildProcess server, long count)
    {
        var began = Stopwatch.GetTimestamp();
        while (true)
        {
            var answer = server.Ask("count");
            if (answer[0] >= count)
                return answer[1];
            if (Stopwatch.GetElapsedTime(began) > AcceptLimit)
                throw new InvalidOperationException($"{kind} accepted {answer[0]} of {count} clients within {AcceptLimit.TotalSeconds} s.");
            Thread.Sleep(10);
        }
    }
}

/// <summary>A server is killed under its clients, and another takes its port. The time begins when the new process is started.</summary>
internal sealed class RestartRow(int clients)
{
    public double Measure()
    {
        using var storm = ChildProcess.Start("storm");
        long port;
        using (var first = StartServer(port: 0))
        {
            port = first.Read()[0];
            storm.Ask($"connect {(int)SinkProtocol.Tcp} {port} {clients} {StormRow.Threads}");
            storm.Ask("greet");
            storm.Write("reconnect");
        }

        var began = Stopwatch.GetTimestamp();
        using var second = StartServer(port);
        second.Read();
        return StormRow.Milliseconds(began, storm.Read()[0]);
    }

    private static ChildProcess StartServer(long port) => ChildProcess.Start("edge", $"{EdgeServerKind.BatchKitTelnet}", $"{port}");
}

/// <summary>How often this machine found a listener's queue full since its start: the client's try is dropped, and comes again after a second.</summary>
internal static class ListenOverflows
{
    public static long Read()
    {
        var lines = File.ReadLines("/proc/net/netstat").Where(line => line.StartsWith("TcpExt:", StringComparison.Ordinal)).Select(line => line.Split(' ')).ToArray();
        return long.Parse(lines[1][Array.IndexOf(lines[0], "ListenOverflows")], CultureInfo.InvariantCulture);
    }
}
