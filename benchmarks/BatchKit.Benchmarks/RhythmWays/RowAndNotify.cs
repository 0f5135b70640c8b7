using BatchKit.Benchmarks.Rhythm;
using Npgsql;

namespace BatchKit.Benchmarks.RhythmWays;

/// <summary>The unbatched way: a transaction with a row and a NOTIFY for each task, in one round trip, on ten connections.</summary>
internal sealed class RowAndNotify(RhythmStage stage) : IRhythmWay
{
    private const string Queue = "row-and-notify";

    public Task PrepareAsync(int tasks) => stage.EmptyAsync();

    public Task<TimeSpan> RunAsync(int tasks) => Workers.RunAsync(Workers.Count, worker => EnqueueAsync(worker, tasks));

    public Task CheckAsync(int tasks) => stage.RequireStoredAsync(Queue, tasks);

    public ValueTask DisposeAsync() => default;

    private async Task EnqueueAsync(int worker, int tasks)
    {
        var payload = TaskPayload.Make();
        await using var connection = await stage.DataSource.OpenConnectionAsync();
        await using var batch = new NpgsqlBatch(connection);
        var insert = new NpgsqlBatchCommand($"insert into {RhythmStage.Messages} (queue, payload) values ($1, $2)");
        insert.Parameters.Add(new NpgsqlParameter<int> { TypedValue = await stage.FindQueueAsync(Queue) });
        insert.Parameters.Add(new NpgsqlParameter<byte[]> { TypedValue = payload });
        batch.BatchCommands.Add(insert);
        batch.BatchCommands.Add(new NpgsqlBatchCommand("select pg_notify('rhythm', '1')"));
        await batch.PrepareAsync();
        var (first, end) = Workers.ShareOf(worker, tasks);
        for (var number = first; number < end; number++)
        {
            TaskPayload.Number(payload, number);
            await batch.ExecuteNonQueryAsync();
        }
    }
}
