using BatchKit.Postgres.Receiving;
using BatchKit.Postgres.Schema;
using Npgsql;

namespace BatchKit.Postgres.Ordered;

/// <summary>Reads the rows that <see cref="ShardStatements.Take"/> returns.</summary>
internal static class ShardBatchReader
{
    /// <summary>Reads a batch; null when there are no rows.</summary>
    public static async ValueTask<Claim?> ReadAsync(NpgsqlDataReader reader, string queue, bool hasMore, CancellationToken cancellationToken)
    {
        var (shard, epoch) = (0, 0L);
        var messages = new List<QueueMessage>();
        while (await reader.ReadAsync(cancellationToken).ConfigureAwait(false))
        {
            (shard, epoch) = (reader.GetInt16(0), reader.GetInt64(1));
            messages.Add(ReadMessage(reader));
        }

        return messages.Count == 0 ? null : new Claim(epoch, shard, new QueueBatch(queue, [.. messages])) { HasMore = hasMore };
    }

    private static QueueMessage ReadMessage(NpgsqlDataReader reader) => new(
        reader.GetInt64(2),
        reader.GetInt16(3) + 1,
        -reader.GetInt16(4),
        reader.GetFieldValue<DateTimeOffset>(5),
        reader.IsDBNull(6) ? null : reader.GetString(6),
        reader.IsDBNull(7) ? null : StoredHeader.Read(reader.GetFieldValue<byte[]>(7)),
        reader.GetFieldValue<byte[]>(8));
}
