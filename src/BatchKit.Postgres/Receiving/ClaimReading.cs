using BatchKit.Postgres.Schema;
using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>Reads the rows that a claim statement returns. Each row is a claim, with its messages as arrays.</summary>
internal static class ClaimReading
{
    // By priority, the highest first, then by number. Aggregates usually keep this order, but do not promise it.
    private static readonly Comparison<QueueMessage> ByTurn = static (left, right) =>
        left.Priority != right.Priority ? right.Priority.CompareTo(left.Priority) : left.Id.CompareTo(right.Id);

    public static async ValueTask<List<Claim>> ReadAsync(IClaimStore store, NpgsqlDataReader reader, string queue, int wanted, int batchSize, TimeSpan unreadableDelay, CancellationToken cancellationToken)
    {
        var batches = new List<(long Token, QueueMessage[] Messages)>(wanted);
        var fresh = 0L;
        var handle = OutputHandle.Named(queue);
        while (await reader.ReadAsync(cancellationToken).ConfigureAwait(false))
        {
            var attempt = reader.GetInt16(1) + 1;
            var ids = reader.GetFieldValue<long[]>(2);
            var ranks = reader.GetFieldValue<short[]>(3);
            var times = reader.GetFieldValue<DateTime[]>(4);
            var headers = reader.IsDBNull(5) ? null : reader.GetFieldValue<byte[]?[]>(5);
            var payloads = reader.GetFieldValue<byte[][]>(6);
            var messages = new QueueMessage[ids.Length];
            for (var index = 0; index < messages.Length; index++)
            {
                var header = StoredHeader.Read(headers?[index], out var trace, out var fault);
                messages[index] = new QueueMessage(handle, ids[index], attempt, -ranks[index], new DateTimeOffset(times[index]), key: null, header, payloads[index]) { Trace = trace, StoredHeader = headers?[index] };
                if (fault is not null)
                    StoredHeader.Withhold(messages[index], headers![index], fault, unreadableDelay);
            }

            if (!IsInTurn(messages))
                Array.Sort(messages, ByTurn);
            batches.Add((reader.GetInt64(0), messages));
            fresh = reader.GetInt64(7);
        }

        // A retry is a batch of its own, so more messages may wait. The exchange may have left messages because of their bytes.
        var hasRetries = batches.Exists(static batch => batch.Messages[0].Attempt > 1);
        var hasMore = hasRetries || fresh >= wanted * batchSize || fresh > batches.Sum(static batch => batch.Messages.Length);
        batches.Sort(static (left, right) => ByTurn(left.Messages[0], right.Messages[0]));
        return batches.ConvertAll(batch => new Claim(store, batch.Token, shard: -1, new QueueBatch(batch.Messages)) { HasMore = hasMore });
    }

    private static bool IsInTurn(QueueMessage[] messages)
    {
        for (var index = 1; index < messages.Length; index++)
        {
            if (ByTurn(messages[index - 1], messages[index]) > 0)
                return false;
        }

        return true;
    }
}
