using BatchKit.Postgres.Schema;
using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>How much waits in a queue.</summary>
/// <param name="Ready">Messages that can be claimed now, up to <see cref="QueueDepthReader.Most"/>.</param>
/// <param name="Delayed">New and failed messages that wait until they are due, and in an ordered queue those behind one of their key; up to three times the limit.</param>
/// <param name="Dead">Messages in the dead table, up to the limit.</param>
/// <param name="OldestAge">The time since the oldest ready or claimed message was enqueued; zero when there is none.</param>
internal sealed record QueueDepth(long Ready, long Delayed, long Dead, TimeSpan OldestAge)
{
    /// <summary>False when counting took too long, so that only the age is known.</summary>
    public bool HasCounts { get; init; } = true;
}

/// <summary>Reads the depth of a queue now and then, in upkeep's task, and keeps the last reading for the instruments: a scrape asks the server nothing. Only one task reads.</summary>
internal sealed class QueueDepthReader(string schema, PostgresQueueReceiverOptions options, TimeProvider timeProvider)
{
    /// <summary>Counting ends here, because it takes time with each message.</summary>
    public const int Most = 100_000;

    // Half a percent of the time, where the server takes long to count.
    private const int PauseFactor = 200;

    private static readonly TimeSpan LeastPause = TimeSpan.FromSeconds(15);

    private readonly string _age = QueueDepthStatement.Age(new Tables(schema));
    private readonly string _counts = QueueDepthStatement.Counts(new Tables(schema));
    private readonly string _plan = $"{ClaimStatements.Plan}, pg_catalog.set_config('statement_timeout', '{LimitOf(options.ClaimTimeLimit)}', true),";
    private volatile QueueDepth? _last;
    private TimeSpan _pause;
    private long _readAt;

    /// <summary>The last reading; null before the first, after one that failed, and while the receiver does not run.</summary>
    public QueueDepth? Last => _last;

    /// <summary>Reads the depth when the last reading is old. A reading that fails leaves none.</summary>
    /// <param name="connection">The connection, which renewal waits for.</param>
    /// <param name="queue">The queue.</param>
    /// <param name="stopping">Ends it.</param>
    public async Task ReadWhenOldAsync(CareConnection connection, QueueEntry queue, CancellationToken stopping)
    {
        if (timeProvider.GetElapsedTime(_readAt) is var age && age < _pause)
            return;
        _readAt = timeProvider.GetTimestamp();
        try
        {
            _last = await connection.UseAsync((open, token) => ReadAsync(open, queue, token), stopping).ConfigureAwait(false);
        }
        catch (Exception) when (!stopping.IsCancellationRequested)
        {
            // What is wrong with the server, upkeep tells.
            _last = null;
        }

        var pause = timeProvider.GetElapsedTime(_readAt) * PauseFactor;
        _pause = pause > LeastPause ? pause : LeastPause;
        _readAt = timeProvider.GetTimestamp();
    }

    /// <summary>Forgets the reading, because no one renews it.</summary>
    public void Clear() => (_last, _pause) = (null, TimeSpan.Zero);

    // A small part of the time after which claims would be lost, because their renewal waits for the same connection.
    private static long LimitOf(TimeSpan claimTimeLimit) => (long)Math.Min(1000, claimTimeLimit.TotalMilliseconds / 10);

    private async Task<QueueDepth> ReadAsync(NpgsqlConnection connection, QueueEntry queue, CancellationToken cancellationToken)
    {
        var batch = new NpgsqlBatch(connection) { Timeout = WholeSeconds.Of(options.CommandTimeout), BatchCommands = { QueueGuard.CommandFor(new Tables(schema), queue, _plan) } };
        await using (batch.ConfigureAwait(false))
        {
            foreach (var statement in (string[])[_age, _counts])
                batch.BatchCommands.Add(new NpgsqlBatchCommand(statement) { Parameters = { new NpgsqlParameter<int> { TypedValue = queue.Id } } });
            var reader = await batch.ExecuteReaderAsync(cancellationToken).ConfigureAwait(false);
            await using (reader.ConfigureAwait(false))
            {
                await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
                await reader.ReadAsync(cancellationToken).ConfigureAwait(false);
                return await ReadCountsAsync(reader, reader.GetTimeSpan(0), cancellationToken).ConfigureAwait(false);
            }
        }
    }

    // The age is what an alarm waits for, so that it shows how long the backlog waits also when there is too much to count.
    private static async Task<QueueDepth> ReadCountsAsync(NpgsqlDataReader reader, TimeSpan age, CancellationToken cancellationToken)
    {
        try
        {
            await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
            await reader.ReadAsync(cancellationToken).ConfigureAwait(false);
            return new QueueDepth(reader.GetInt64(0), reader.GetInt64(1), reader.GetInt64(2), age);
        }
        catch (PostgresException)
        {
            return new QueueDepth(0, 0, 0, age) { HasCounts = false };
        }
    }
}

/// <summary>The statements that read a queue's depth: $1 queue. They count in indexes. Of each priority, and of each shard, they look at the message with the lowest number, which is about the oldest.</summary>
internal static class QueueDepthStatement
{
    // Priorities that are looked at for the oldest message, the highest first.
    private const int MaxRanks = 100;

    public static string Age(Tables tables) => $"""
        with recursive ranks as (
            (select rank from {tables.Messages} where queue = $1 and due_at is null and shard is null order by rank limit 1)
            union all
            select (select m.rank from {tables.Messages} as m where m.queue = $1 and m.due_at is null and m.shard is null and m.rank > ranks.rank order by m.rank limit 1) from ranks where ranks.rank is not null
        ), oldest as (
            select first.enqueued_at from (select rank from ranks where rank is not null limit {MaxRanks}) as r
            cross join lateral (select m.enqueued_at from {tables.Messages} as m where m.queue = $1 and m.due_at is null and m.shard is null and m.rank = r.rank order by m.id limit 1) as first
            union all
            select first.enqueued_at from {tables.Shards} as s
            cross join lateral (select m.enqueued_at from {tables.Messages} as m where m.queue = $1 and m.shard = s.shard and m.due_at is null order by m.id limit 1) as first where s.queue = $1
            union all
            (select enqueued_at from {tables.Messages} where queue = $1 and attempts > 0 and shard is null and due_at <= pg_catalog.now() order by due_at limit 1)
            union all
            select held.enqueued_at from {tables.Claims} as c cross join lateral pg_catalog.unnest(c.enqueued_at) as held (enqueued_at) where c.queue = $1
        )
        select greatest(pg_catalog.now() - (select pg_catalog.min(enqueued_at) from oldest), interval '0')
        """;

    public static string Counts(Tables tables) => $"""
        select greatest({Count(tables.Messages, "due_at is null and shard is null")} + {Count(tables.Messages, "due_at is null and shard is not null")}
                - coalesce((select pg_catalog.sum(pg_catalog.cardinality(in_hand)) from {tables.Shards} where queue = $1 and until is not null), 0), 0)::bigint,
            {Count(tables.Messages, "due_at is not null and attempts = 0 and shard is null")} + {Count(tables.Messages, "attempts > 0 and shard is null")}
                + {Count(tables.Messages, "due_at is not null and shard is not null")},
            {Count(tables.Dead, "true")}
        """;

    private static string Count(string table, string which) => $"(select pg_catalog.count(*) from (select from {table} where queue = $1 and {which} limit {QueueDepthReader.Most}) as counted)";
}
