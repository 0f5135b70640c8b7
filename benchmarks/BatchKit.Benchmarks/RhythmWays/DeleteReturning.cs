using BatchKit.Benchmarks.Rhythm;
using Npgsql;

namespace BatchKit.Benchmarks.RhythmWays;

/// <summary>The floor of draining: <c>DELETE … RETURNING</c> in a bare loop, on BatchKit's own table and index. What a worker that dies had in hand is lost.</summary>
internal sealed class DeleteReturning(RhythmStage stage, int tasksInClaim) : IRhythmWay
{
    private const string Queue = "delete-returning";

    private const string Delete = $"""
        with picked as materialized (
            select ctid from {RhythmStage.Messages} where queue = $1 and due_at is null and shard is null order by rank, id limit $2 for update skip locked)
        delete from {RhythmStage.Messages} using picked where messages.ctid = picked.ctid returning messages.id, messages.payload
        """;

    private readonly TaskWork _work = new(TimeSpan.Zero);
    private readonly ScopedWrites _filler = new(stage, Queue, tasksInScope: 1000);

    public async Task PrepareAsync(int tasks)
    {
        _work.Handled.Expect(tasks);
        await _filler.PrepareAsync(tasks);
        await _filler.RunAsync(tasks);
        await stage.SettleAsync(RhythmStage.Messages);
    }

    public async Task<TimeSpan> RunAsync(int tasks)
    {
        var queue = await stage.FindQueueAsync(Queue);
        return await Workers.RunAsync(Workers.Count, _ => DrainAsync(queue));
    }

    public Task CheckAsync(int tasks)
    {
        _work.Handled.Check();
        return stage.RequireEmptyAsync(RhythmStage.Messages);
    }

    public ValueTask DisposeAsync() => _filler.DisposeAsync();

    /// <summary>The statement, for who else takes tasks by it.</summary>
    public static async Task<NpgsqlCommand> PrepareAsync(NpgsqlConnection connection, int queue, int tasksInClaim)
    {
        var command = new NpgsqlCommand(Delete, connection);
        command.Parameters.Add(new NpgsqlParameter<int> { TypedValue = queue });
        command.Parameters.Add(new NpgsqlParameter<int> { TypedValue = tasksInClaim });
        await command.PrepareAsync();
        return command;
    }

    private async Task DrainAsync(int queue)
    {
        await using var connection = await stage.DataSource.OpenConnectionAsync();
        await using var command = await PrepareAsync(connection, queue, tasksInClaim);
        while (await DeleteAsync(command))
        {
        }
    }

    private async Task<bool> DeleteAsync(NpgsqlCommand command)
    {
        var turn = _work.Begin();
        await using var reader = await command.ExecuteReaderAsync();
        var isAny = false;
        while (await reader.ReadAsync())
        {
            isAny = true;
            _ = reader.GetInt64(0);
            await turn.HandleAsync(reader.GetFieldValue<byte[]>(1));
        }

        return isAny;
    }
}
