using BatchKit.Benchmarks.Rhythm;
using Npgsql;

namespace BatchKit.Benchmarks.RhythmWays;

/// <summary>The textbook's queue: an UPDATE with SKIP LOCKED claims so many rows, and each is deleted by itself when it is done.</summary>
internal sealed class ClaimAndComplete(RhythmStage stage, int tasksInClaim, TimeSpan workDuration) : IRhythmWay
{
    private const string Claim = $"""
        with picked as materialized (select id from {RhythmStage.Plain} where claimed_until is null order by id limit $1 for update skip locked)
        update {RhythmStage.Plain} set claimed_until = now() + interval '30 s' from picked where tasks.id = picked.id returning tasks.id, payload
        """;

    private readonly TaskWork _work = new(workDuration);

    public Task PrepareAsync(int tasks)
    {
        _work.Handled.Expect(tasks);
        return stage.FillPlainAsync(tasks);
    }

    public Task<TimeSpan> RunAsync(int tasks) => Workers.RunAsync(Workers.Count, _ => DrainAsync());

    public Task CheckAsync(int tasks)
    {
        _work.Handled.Check();
        return stage.RequireEmptyAsync(RhythmStage.Plain);
    }

    public ValueTask DisposeAsync() => default;

    private async Task DrainAsync()
    {
        await using var connection = await stage.DataSource.OpenConnectionAsync();
        await using var claim = new NpgsqlCommand(Claim, connection);
        claim.Parameters.Add(new NpgsqlParameter<int> { TypedValue = tasksInClaim });
        await claim.PrepareAsync();
        await using var complete = new NpgsqlCommand($"delete from {RhythmStage.Plain} where id = $1", connection);
        var id = new NpgsqlParameter<long>();
        complete.Parameters.Add(id);
        await complete.PrepareAsync();
        var claimed = new List<(long Id, byte[] Payload)>();
        while (await ReadAsync(claim, claimed))
        {
            var turn = _work.Begin();
            foreach (var task in claimed)
            {
                await turn.HandleAsync(task.Payload);
                id.TypedValue = task.Id;
                await complete.ExecuteNonQueryAsync();
            }
        }
    }

    private static async Task<bool> ReadAsync(NpgsqlCommand claim, List<(long Id, byte[] Payload)> claimed)
    {
        claimed.Clear();
        await using var reader = await claim.ExecuteReaderAsync();
        while (await reader.ReadAsync())
            claimed.Add((reader.GetInt64(0), reader.GetFieldValue<byte[]>(1)));
        return claimed.Count > 0;
    }
}
