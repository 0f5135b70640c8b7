using BatchKit.Postgres.Receiving;
using BatchKit.Postgres.Schema;
using Npgsql;

namespace BatchKit.Postgres.Ordered;

/// <summary>Reads the rows that <see cref="ShardStatements.Take"/> returns.</summary>
internal static class ShardBatchReader
{
    /// <summary>Reads a batch; returns null when there are no rows.</summary>
    public static async ValueTask<Claim?> ReadAsync(IClaimStore store, NpgsqlDataReader reader, string queue, bool hasMore, TimeSpan unreadableDelay, CancellationToken cancellationToken)
    {
        var (shard, epoch) = (0, 0L);
        var messages = new List<QueueMessage>();
        HashSet<string>? waitingKeys = null;
        var handle = OutputHandle.Named(queue);
        while (await reader.ReadAsync(cancellationToken).ConfigureAwait(false))
        {
            (shard, epoch) = (reader.GetInt16(0), reader.GetInt64(1));
            var message = ReadMessage(reader, handle, unreadableDelay);
            messages.Add(message);
            // Later messages of the same key must not overtake a message that waits for a process that can read it.
            if (message is { IsWithheld: true, Outcome: MessageOutcome.Released })
                (waitingKeys ??= new HashSet<string>(StringComparer.Ordinal)).Add(message.Key ?? string.Empty);
            else if (waitingKeys is not null && waitingKeys.Contains(message.Key ?? string.Empty))
                message.Withhold(delay: null);
        }

        return messages.Count == 0 ? null : new Claim(store, epoch, shard, new QueueBatch([.. messages])) { HasMore = hasMore };
    }

    private static QueueMessage ReadMessage(NpgsqlDataReader reader, OutputHandle queue, TimeSpan unreadableDelay)
    {
        var stored = reader.IsDBNull(7) ? null : reader.GetFieldValue<byte[]>(7);
        var header = StoredHeader.Read(stored, out var trace, out var fault);
        var message = new QueueMessage(
            queue,
            reader.GetInt64(2),
            reader.GetInt16(3) + 1,
            -reader.GetInt16(4),
            reader.GetFieldValue<DateTimeOffset>(5),
            reader.IsDBNull(6) ? null : reader.GetString(6),
            header,
            reader.GetFieldValue<byte[]>(8))
        { Trace = trace, StoredHeader = stored };
        if (fault is not null)
            StoredHeader.Withhold(message, stored, fault, unreadableDelay);
        return message;
    }
}
