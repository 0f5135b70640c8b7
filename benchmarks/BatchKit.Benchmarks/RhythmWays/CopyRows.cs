using BatchKit.Benchmarks.Rhythm;
using NpgsqlTypes;

namespace BatchKit.Benchmarks.RhythmWays;

/// <summary>The floor of enqueueing: binary COPY of a thousand rows at a time into the same table, on ten connections.</summary>
internal sealed class CopyRows(RhythmStage stage) : IRhythmWay
{
    private const string Queue = "copy";
    private const int RowsAtOnce = 1000;

    public Task PrepareAsync(int tasks) => stage.EmptyAsync();

    public Task<TimeSpan> RunAsync(int tasks) => Workers.RunAsync(Workers.Count, worker => CopyAsync(worker, tasks));

    public Task CheckAsync(int tasks) => stage.RequireStoredAsync(Queue, tasks);

    public ValueTask DisposeAsync() => default;

    private async Task CopyAsync(int worker, int tasks)
    {
        var payload = TaskPayload.Make();
        var queue = await stage.FindQueueAsync(Queue);
        await using var connection = await stage.DataSource.OpenConnectionAsync();
        var (first, end) = Workers.ShareOf(worker, tasks);
        for (var number = first; number < end;)
        {
            await using var copy = await connection.BeginBinaryImportAsync($"copy {RhythmStage.Messages} (queue, payload) from stdin (format binary)");
            for (var last = Math.Min(end, number + RowsAtOnce); number < last; number++)
            {
                TaskPayload.Number(payload, number);
                await copy.StartRowAsync();
                await copy.WriteAsync(queue, NpgsqlDbType.Integer);
                await copy.WriteAsync(payload, NpgsqlDbType.Bytea);
            }

            await copy.CompleteAsync();
        }
    }
}
