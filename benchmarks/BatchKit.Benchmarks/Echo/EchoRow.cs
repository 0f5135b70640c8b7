using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.EchoServers;
using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Measuring;

namespace BatchKit.Benchmarks.Echo;

/// <summary>One echo server and its load, each a process of its own, and all that was measured of it.</summary>
internal sealed class EchoRow : IDisposable
{
    private const double NanosecondsPerSecond = 1e9;
    private const double NanosecondsPerMillisecond = 1e6;
    private const double PacedShare = 0.1;

    private readonly ChildProcess _server;
    private readonly ChildProcess _load;
    private readonly List<EchoRun> _full = [];
    private readonly List<EchoRun> _paced = [];
    private ServerUsage _usage;

    public EchoRow(EchoServerKind kind, int connections)
    {
        Kind = kind;
        _server = kind switch
        {
            EchoServerKind.FloorOneThread => ChildProcess.StartProgram(NativeProgram.Build("echo"), "1"),
            EchoServerKind.FloorTwoThreads => ChildProcess.StartProgram(NativeProgram.Build("echo"), "2"),
            _ => ChildProcess.Start("echo", $"{kind}"),
        };
        _load = ChildProcess.Start("load", $"{_server.Read()[0]}", $"{connections}");
        _load.Read();
    }

    public EchoServerKind Kind { get; }

    /// <summary>Sends as much as comes back, for a while.</summary>
    public EchoRun RunFull(int window, TimeSpan duration) => EchoRun.From(_load.Ask($"full {window} {(int)duration.TotalMilliseconds}"));

    /// <summary>A round: full load, then a tenth of what came back.</summary>
    public GateReading Measure(int window, TimeSpan duration)
    {
        var before = ServerUsage.Ask(_server);
        var full = RunFull(window, duration);
        _usage += ServerUsage.Ask(_server) - before;
        _full.Add(full);
        _paced.Add(EchoRun.From(_load.Ask($"paced {(long)(full.Rate * PacedShare)} {(int)duration.TotalMilliseconds}")));
        return new GateReading { [GateMetric.Rate] = full.Rate };
    }

    /// <summary>A long run in parts, to see whether memory grows and how often the oldest generation is collected.</summary>
    public EchoEndurance Endure(int window, TimeSpan duration, int parts)
    {
        var (workingSets, runs, usage, liveBefore) = (new List<double>(), new List<EchoRun>(), default(ServerUsage), 0d);
        for (var part = 0; part < parts; part++)
        {
            // The first quarter is for the pools to fill. What is in use is counted behind a collection, which is not the server's own.
            if (part == parts / 4)
                liveBefore = _server.Ask("live")[0];
            var before = ServerUsage.Ask(_server);
            runs.Add(RunFull(window, duration / parts));
            usage += ServerUsage.Ask(_server) - before;
            workingSets.Add(_server.Ask("memory")[0]);
        }

        return new EchoEndurance(workingSets, liveBefore, _server.Ask("live")[0], runs, usage);
    }

    /// <summary>The row's cells in the table.</summary>
    public IEnumerable<string> Describe() =>
    [
        $"{Kind}",
        $"{Quantile.Of(_full.Select(run => run.Rate), 0.5):0}",
        $"{Quantile.Of(_full.Select(run => run.Median), 0.5) / NanosecondsPerMillisecond:0.00}",
        $"{Quantile.Of(_full.Select(run => run.NinetyNine), 0.5) / NanosecondsPerMillisecond:0.00}",
        $"{Quantile.Of(_paced.Select(run => run.Median), 0.5) / NanosecondsPerMillisecond:0.000}",
        $"{Quantile.Of(_paced.Select(run => run.NinetyNine), 0.5) / NanosecondsPerMillisecond:0.000}",
        $"{_usage.ProcessorNanoseconds / _full.Sum(run => run.Records):0}",
        $"{_usage.AllocatedBytes / _full.Sum(run => run.Records):0.0}",
        $"{_usage.Gen0 / Seconds:0.00} / {_usage.Gen1 / Seconds:0.00} / {_usage.Gen2 / Seconds:0.00}",
    ];

    public void Dispose()
    {
        _load.Dispose();
        _server.Dispose();
    }

    private double Seconds => _full.Sum(run => run.Nanoseconds) / NanosecondsPerSecond;
}
