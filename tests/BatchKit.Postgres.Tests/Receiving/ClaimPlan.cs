using BatchKit.Postgres.Receiving;
using Npgsql;

namespace BatchKit.Postgres.Tests.Receiving;

/// <summary>Asks PostgreSQL how it executes a claim, with the settings that each claim makes first.</summary>
internal static class ClaimPlan
{
    /// <summary>Prepares a claim, once for a connection; it is planned when it is explained for the first time.</summary>
    public static Task PrepareAsync(NpgsqlConnection connection, string statement) =>
        ExecuteAsync(connection, $"prepare claim (int, interval, text, bigint, smallint, bigint, bigint, int, int) as {statement}");

    /// <summary>Explains the claim that was prepared, line by line, and changes nothing.</summary>
    /// <param name="connection">Where it was prepared.</param>
    /// <param name="queue">The queue's number.</param>
    /// <param name="floor">The lowest id that is looked at; null looks from the beginning.</param>
    /// <param name="options">What EXPLAIN is asked for.</param>
    /// <param name="retries">How many retries are claimed before fresh messages.</param>
    public static async Task<IReadOnlyList<string>> ExplainAsync(NpgsqlConnection connection, int queue, long? floor = null, string options = "costs off", int retries = 0)
    {
        var (rank, id) = floor is { } lowest ? (0, lowest) : (short.MinValue, 0L);
        await using var transaction = await connection.BeginTransactionAsync(TestContext.Current.CancellationToken);
        await ExecuteAsync(connection, ClaimStatements.Plan);
        await using var command = new NpgsqlCommand($"explain ({options}) execute claim ({queue}, '30 s', 'w', 8388608, {rank}, {id}, 1, 1, {retries})", connection);
        await using var reader = await command.ExecuteReaderAsync(TestContext.Current.CancellationToken);
        var lines = new List<string>();
        while (await reader.ReadAsync(TestContext.Current.CancellationToken))
            lines.Add(reader.GetString(0));
        return lines;
    }

    private static async Task ExecuteAsync(NpgsqlConnection connection, string sql)
    {
        await using var command = new NpgsqlCommand(sql, connection);
        await command.ExecuteNonQueryAsync(TestContext.Current.CancellationToken);
    }
}
