using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Measuring;
using BatchKit.Benchmarks.RhythmWays;

namespace BatchKit.Benchmarks.Rhythm;

/// <summary>How many buffers a server reads for a task that is claimed and completed, as it counts them itself (pg_stat_statements). They are the same on every machine, but for how batches meet.</summary>
internal sealed class BuffersRow(RhythmStage stage, RatePlan plan)
{
    public static readonly string[] Columns = ["", "buffers a task"];

    private const int Tasks = 50_000;
    private const string Count = "select sum(shared_blks_hit + shared_blks_read) from pg_stat_statements where query like '%batchkit%' and query not like '%pg_stat_statements%'";

    private readonly List<double> _buffers = [];

    public string Name => NameOf(plan.Method);

    public static string NameOf(string method) => $"{nameof(RhythmBenchmarks)}.{method}Buffers";

    public async Task<GateReading> MeasureAsync()
    {
        await using var way = plan.Make(stage);
        await way.PrepareAsync(Tasks);
        await stage.ExecuteAsync("select pg_stat_statements_reset()");
        await way.RunAsync(Tasks);
        var buffers = (double)await stage.CountAsync(Count) / Tasks;
        await way.CheckAsync(Tasks);
        _buffers.Add(buffers);
        return new GateReading { [GateMetric.Buffers] = buffers };
    }

    public IEnumerable<string> Describe() => [plan.Title, $"{Quantile.Of(_buffers, 0.5):0.0}"];
}
