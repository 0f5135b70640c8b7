using System.Diagnostics;
using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Measuring;
using BatchKit.Benchmarks.RhythmWays;
using BatchKit.Postgres;
using Npgsql;

namespace BatchKit.Benchmarks.Rhythm;

/// <summary>How many statements a second a server runs for ten workers that have nothing to do, as it counts them itself (pg_stat_statements): a batch of three counts three.</summary>
internal sealed class IdleRow(RhythmStage stage, bool isPolling)
{
    public static readonly string[] Columns = ["", "statements a second"];

    /// <summary>What the server needs in its configuration.</summary>
    public const string Configuration = "shared_preload_libraries = 'pg_stat_statements'";

    private const string Queue = "idle";
    private const string Count = "select coalesce(sum(calls), 0) from pg_stat_statements where query not like '%pg_stat_statements%'";

    private static readonly TimeSpan Start = TimeSpan.FromSeconds(1);

    private readonly List<double> _rates = [];

    public string Name => NameOf(isPolling);

    public static string NameOf(bool isPolling) => $"{nameof(RhythmBenchmarks)}.{(isPolling ? "IdlePolling" : "Idle")}";

    public async Task<GateReading> MeasureAsync(TimeSpan duration)
    {
        await using var workers = await StartAsync();
        // What a start needs is not idleness.
        await Task.Delay(Start);
        // One connection for both: each one that comes out of the pool is reset first, in seven statements.
        await using var connection = await stage.DataSource.OpenConnectionAsync();
        var (before, began) = (await CountAsync(connection), Stopwatch.GetTimestamp());
        await Task.Delay(duration);
        var statements = await CountAsync(connection) - before;
        var rate = (double)statements / Stopwatch.GetElapsedTime(began).TotalSeconds;
        _rates.Add(rate);
        return new GateReading { [GateMetric.Statements] = rate };
    }

    public IEnumerable<string> Describe() =>
        [isPolling ? "10 workers that poll each 100 ms" : "BatchKit, 10 workers, with its safety poll", $"{Quantile.Of(_rates, 0.5):0.00}"];

    private static async Task<decimal> CountAsync(NpgsqlConnection connection)
    {
        await using var command = new NpgsqlCommand(Count, connection);
        return (decimal)(await command.ExecuteScalarAsync())!;
    }

    private async Task<IAsyncDisposable> StartAsync()
    {
        if (isPolling)
        {
            var polling = new WorkersByHand(stage, Queue, isPolling: true, _ => { });
            await polling.StartAsync();
            return polling;
        }

        var receiver = new PostgresQueueReceiver(stage.DataSource, new PostgresQueueReceiverOptions { Queue = Queue }, new WorkHandler(new TaskWork(TimeSpan.Zero)));
        await receiver.StartAsync(CancellationToken.None);
        return receiver;
    }
}
