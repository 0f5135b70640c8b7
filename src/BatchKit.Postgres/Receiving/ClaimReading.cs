using BatchKit.Postgres.Schema;
using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>Reads the rows that a claim returns: each is a claim, with its messages as arrays.</summary>
internal static class ClaimReading
{
    // Rising first by rank (the highest priority first), then by number. Aggregates promise no order, though they mostly keep it.
    private static readonly Comparison<QueueMessage> ByTurn = static (left, right) =>
        left.Priority != right.Priority ? right.Priority.CompareTo(left.Priority) : left.Id.CompareTo(right.Id);

    public static async ValueTask<List<Claim>> ReadAsync(NpgsqlDataReader reader, string queue, int wanted, CancellationToken cancellationToken)
    {
        var claims = new List<Claim>(1);
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
                var header = headers?[index] is { } stored ? StoredHeader.Read(stored) : null;
                messages[index] = new QueueMessage(ids[index], attempt, -ranks[index], new DateTimeOffset(times[index]), key: null, header, payloads[index]);
            }

            if (!IsInTurn(messages))
                Array.Sort(messages, ByTurn);
            // A retry comes alone, whatever else waits.
            var hasMore = attempt > 1 || reader.GetInt64(7) >= wanted || reader.GetInt64(7) > messages.Length;
            claims.Add(new Claim(reader.GetInt64(0), shard: -1, new QueueBatch(queue, messages)) { HasMore = hasMore });
        }

        return claims;
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
