using BatchKit.Benchmarks.FanoutServers;
using BatchKit.Benchmarks.Gates;

namespace BatchKit.Benchmarks.Fanout;

/// <summary>All benchmarks with one number of subscribers: their servers run side by side and send in turn, so that a noisy moment hits all of them.</summary>
internal sealed class FanoutStage : IDisposable
{
    private readonly int _subscribers;
    private readonly Dictionary<FanoutServerKind, FanoutPair> _pairs = [];
    private readonly List<FanoutRow> _rows = [];

    public FanoutStage(int subscribers, IEnumerable<FanoutBenchmark> benchmarks)
    {
        _subscribers = subscribers;
        try
        {
            foreach (var benchmark in benchmarks)
                _rows.Add(new FanoutRow(benchmark, subscribers, PairOf(benchmark.Server)));
        }
        catch
        {
            Dispose();
            throw;
        }
    }

    public IReadOnlyList<FanoutRow> Rows => _rows;

    public void WarmUp(int broadcasts)
    {
        foreach (var row in _rows)
            row.WarmUp(broadcasts);
    }

    /// <summary>Lets each send so often, one after the other.</summary>
    /// <param name="round">Which one begins changes from round to round.</param>
    /// <param name="broadcasts">How often.</param>
    /// <param name="readings">Gets what was measured.</param>
    public void Run(int round, int broadcasts, SuiteReadings readings)
    {
        for (var turn = 0; turn < _rows.Count; turn++)
        {
            var row = _rows[(round + turn) % _rows.Count];
            readings.Add(row.Name, row.Measure(broadcasts));
        }
    }

    public void Dispose()
    {
        foreach (var pair in _pairs.Values)
            pair.Dispose();
    }

    private FanoutPair PairOf(FanoutServerKind kind)
    {
        if (!_pairs.TryGetValue(kind, out var pair))
            _pairs[kind] = pair = new FanoutPair(kind, _subscribers);
        return pair;
    }
}
