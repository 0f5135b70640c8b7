using BatchKit.Benchmarks.Measuring;
using BatchKit.Benchmarks.RhythmWays;
using BatchKit.Postgres;

namespace BatchKit.Benchmarks.Rhythm;

/// <summary>What the settings of a receiver do, one after the other, on each disk: what the package's README advises by.</summary>
internal sealed class AdviceTables
{
    private const string Queue = "advice";
    private const int FirstTasks = 2000;
    private const int MaxTasks = 100_000;
    private const int WorkTasks = 5000;

    private readonly List<(string Title, string[] Columns, List<string[]> Rows)> _tables = [];

    /// <summary>Measures each setting once.</summary>
    public static async Task<AdviceTables> MeasureAsync(IReadOnlyList<RhythmStage> stages, TimeSpan duration)
    {
        var tables = new AdviceTables();
        var rates = stages.Select(stage => $"tasks/s, disk {stage.Disk}").ToArray();
        await tables.AddAsync("Workers (connections of the pool: two more), batches of 100", ["Concurrency", .. rates], stages, duration, [1, 2, 5, 10, 20, 40],
            value => new PostgresQueueReceiverOptions { Concurrency = value });
        await tables.AddAsync("Batch size, 10 workers", ["BatchSize", .. rates], stages, duration, [1, 10, 30, 100, 300, 1000], value => new PostgresQueueReceiverOptions { BatchSize = value });
        await tables.AddAsync("Prefetch, 10 workers, batches of 100", ["Prefetch", .. rates], stages, duration, [0, 200, 1000, 5000], value => new PostgresQueueReceiverOptions { Prefetch = value });
        await tables.AddAsync("Prefetch, 10 workers, batches of 10", ["Prefetch", .. rates], stages, duration, [0, 200, 1000], value => new PostgresQueueReceiverOptions { BatchSize = 10, Prefetch = value });
        await tables.AddAsync("Time limit, 10 workers, batches of 500, 2 ms a task: a batch takes a second, and is renewed at each third of the limit", ["ClaimTimeLimit, s", .. rates], stages,
            duration, [1, 3, 30], value => new PostgresQueueReceiverOptions { BatchSize = 500, ClaimTimeLimit = TimeSpan.FromSeconds(value) }, TimeSpan.FromMilliseconds(2));
        return tables;
    }

    public void Write(TextWriter writer)
    {
        foreach (var (title, columns, rows) in _tables)
            MarkdownTable.Write(writer, title, columns, rows);
    }

    private async Task AddAsync(
        string title, string[] columns, IReadOnlyList<RhythmStage> stages, TimeSpan duration, int[] values, Func<int, PostgresQueueReceiverOptions> configure, TimeSpan workDuration = default)
    {
        Console.Error.WriteLine(title);
        var rows = values.Select(value => new List<string> { $"{value}" }).ToArray();
        foreach (var stage in stages)
        {
            foreach (var (value, row) in values.Zip(rows))
            {
                var options = configure(value);
                options.Queue = Queue;
                row.Add($"{await MeasureAsync(stage, options, workDuration, duration):0}");
            }
        }

        _tables.Add((title, columns, [.. rows.Select(row => row.ToArray())]));
    }

    private static async Task<double> MeasureAsync(RhythmStage stage, PostgresQueueReceiverOptions options, TimeSpan workDuration, TimeSpan duration)
    {
        await using var way = new Receivers(stage, options, workDuration);
        if (workDuration > TimeSpan.Zero)
            return await RunAsync(way, WorkTasks);
        var guess = await RunAsync(way, FirstTasks);
        return await RunAsync(way, Math.Clamp((int)(guess * duration.TotalSeconds), FirstTasks, MaxTasks));
    }

    private static async Task<double> RunAsync(Receivers way, int tasks)
    {
        await way.PrepareAsync(tasks);
        var elapsed = await way.RunAsync(tasks);
        await way.CheckAsync(tasks);
        return tasks / elapsed.TotalSeconds;
    }
}
