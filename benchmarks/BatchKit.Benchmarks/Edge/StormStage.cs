using BatchKit.Benchmarks.EdgeServers;
using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Measuring;

namespace BatchKit.Benchmarks.Edge;

/// <summary>Many clients connect at once, to each server in turn; and a server restarts under many clients that reconnect at once.</summary>
internal sealed class StormStage : IEdgeStage
{
    private const string Restart = $"{nameof(EdgeBenchmarks)}.Restart";

    private static readonly string[] Columns =
        ["server", "clients", "accepted, ms", "accepted a second", "greeted, ms", "new ListenOverflows", "server CPU, µs a client", "allocated, B a client"];

    private readonly int _clients;
    private readonly StormRow[] _rows;
    private readonly List<double> _restarts = [];

    public StormStage(int clients)
    {
        _clients = clients;
        _rows = Array.ConvertAll(Enum.GetValues<EdgeServerKind>(), kind => new StormRow(kind, clients));
    }

    public int MaxRounds => int.MaxValue;

    public IEnumerable<string> Names => _rows.Select(row => row.Name).Append(Restart);

    public void Measure(SuiteReadings readings)
    {
        foreach (var row in _rows)
            readings.Add(row.Name, row.Measure());
        var milliseconds = new RestartRow(_clients).Measure();
        _restarts.Add(milliseconds);
        readings.Add(Restart, new GateReading { [GateMetric.Greeted] = milliseconds });
    }

    public void WriteTables(TextWriter writer)
    {
        MarkdownTable.Write(writer, "A storm from 8 threads", Columns, _rows.Select(row => row.Describe()));
        MarkdownTable.Write(
            writer, "A restart under clients that reconnect at once", ["", "clients", "from the new process's start until all are greeted, ms"],
            [["BatchKitTelnet", $"{_clients}", $"{Quantile.Of(_restarts, 0.5):0}"]]);
    }
}
