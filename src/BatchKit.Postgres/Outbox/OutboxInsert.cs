using BatchKit.Postgres.Schema;
using Npgsql;

namespace BatchKit.Postgres.Outbox;

/// <summary>Stores frames in an outbox's queue, in order, in the transaction of their connection. Any thread.</summary>
/// <remarks>No producer's number goes with them: a caller whose commit was lost to view can't know either, and each call has a producer of its own.</remarks>
internal sealed class OutboxInsert(Tables tables, TimeSpan commandTimeout)
{
    private readonly string _statement = $"""
        insert into {tables.Messages} (queue, shard, payload)
        select $1, 0, stored.frame from unnest($2) with ordinality as stored(frame, place) order by stored.place
        """;

    public async Task RunAsync(NpgsqlConnection connection, NpgsqlTransaction? transaction, QueueEntry queue, byte[][] frames, CancellationToken cancellationToken)
    {
        var command = new NpgsqlCommand(_statement, connection, transaction) { CommandTimeout = WholeSeconds.Of(commandTimeout) };
        await using var _ = command.ConfigureAwait(false);
        command.Parameters.Add(new NpgsqlParameter<int> { TypedValue = queue.Id });
        command.Parameters.Add(new NpgsqlParameter<byte[][]> { TypedValue = frames });
        await command.ExecuteNonQueryAsync(cancellationToken).ConfigureAwait(false);
    }
}
