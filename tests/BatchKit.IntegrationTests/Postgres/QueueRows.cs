using BatchKit.TestServers.Postgres;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>Puts rows into the tables of queues, in states that are hard to reach at will from outside.</summary>
internal sealed class QueueRows
{
    private readonly TestSchema _schema;

    private QueueRows(TestSchema schema, string queue)
    {
        _schema = schema;
        Queue = queue;
    }

    public string Queue { get; }

    /// <summary>Creates a queue, in tables that are there.</summary>
    public static async Task<QueueRows> CreateAsync(TestSchema schema, string queue = "tasks", int shards = 0)
    {
        await using var command = schema.DataSource.CreateCommand($"insert into {schema.Quoted}.queues (name, shards) values ($1, $2)");
        command.Parameters.AddWithValue(queue);
        command.Parameters.AddWithValue((short)shards);
        await command.ExecuteNonQueryAsync();
        return new QueueRows(schema, queue);
    }

    /// <summary>Inserts a message, and returns its number.</summary>
    /// <param name="payload">Its text.</param>
    /// <param name="dueIn">When it is due, in seconds from now; at once when null.</param>
    /// <param name="uniqueKey">Its uniqueness key, which is marked as taken.</param>
    /// <param name="shard">Its shard, in an ordered queue.</param>
    /// <param name="key">Its key, in an ordered queue.</param>
    public async Task<long> AddAsync(string payload = "x", int? dueIn = null, string? uniqueKey = null, int? shard = null, string? key = null)
    {
        if (uniqueKey is not null)
            await RunAsync("insert into {0}.unique_keys (queue, key) select id, $2 from {0}.queues where name = $1 returning 0::bigint", uniqueKey);
        return await RunAsync(
            """
            insert into {0}.messages (queue, payload, due_at, unique_key, shard, key)
            select id, convert_to($2, 'UTF8'), now() + make_interval(secs => $3), $4, $5, $6 from {0}.queues where name = $1 returning id
            """, payload, dueIn, uniqueKey, (short?)shard, key);
    }

    /// <summary>Has a worker claim so many messages, which were enqueued so long ago.</summary>
    public Task ClaimAsync(int count, TimeSpan age) => RunAsync(
        """
        insert into {0}.claims (token, queue, until, worker, attempts, ids, ranks, enqueued_at, payloads)
        select (random() * 1e15)::bigint, id, now() + interval '1 hour', 'worker', 0, array(select generate_series(1000001, 1000000 + $2)::bigint), array_fill(0::smallint, array[$2]),
               array_fill(now() - make_interval(secs => $3), array[$2]), array_fill(''::bytea, array[$2])
        from {0}.queues where name = $1 returning token
        """, count, age.TotalSeconds);

    /// <summary>Has a worker hold a shard with these messages in hand; with <paramref name="isLeased"/> false it held them once.</summary>
    public Task LeaseAsync(int shard, bool isLeased, params long[] inHand) => RunAsync(
        """
        insert into {0}.shards (queue, shard, until, in_hand) select id, $2, case when $3 then now() + interval '1 hour' end, $4 from {0}.queues where name = $1
        on conflict (queue, shard) do update set until = excluded.until, in_hand = excluded.in_hand returning queue::bigint
        """, (short)shard, isLeased, inHand);

    /// <summary>Buries a message, so long ago.</summary>
    public Task BuryAsync(long id, string payload = "x", string error = "It failed.", string? uniqueKey = null, string? key = null, int secondsAgo = 0) => RunAsync(
        """
        insert into {0}.dead (id, queue, died_at, enqueued_at, rank, attempts, key, unique_key, error, payload)
        select $2, id, now() - make_interval(secs => $3), now() - interval '1 day', -3, 5, $4, $5, $6, convert_to($7, 'UTF8') from {0}.queues where name = $1 returning $2
        """, id, secondsAgo, key, uniqueKey, error, payload);

    private async Task<long> RunAsync(string sql, params object?[] values)
    {
        await using var command = _schema.DataSource.CreateCommand(sql.Replace("{0}", _schema.Quoted, StringComparison.Ordinal));
        command.Parameters.AddWithValue(Queue);
        foreach (var value in values)
            command.Parameters.AddWithValue(value ?? DBNull.Value);
        return (long)(await command.ExecuteScalarAsync())!;
    }
}
