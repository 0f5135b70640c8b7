using BatchKit.Postgres.Schema;
using BatchKit.Postgres.Sending;
using BatchKit.Transports;
using Npgsql;
using NpgsqlTypes;

namespace BatchKit.Postgres;

/// <summary>Inspects and repairs queues: counts messages, and lists, replays, deletes, purges and cancels them. The tool <c>batchkit</c> uses it.</summary>
/// <remarks>Thread-safe. Each call makes all of its changes or none, in one statement, and does not join an ambient transaction. A call has no time limit, because its duration depends on the number of messages. Only the token cancels it.</remarks>
public sealed class PostgresQueueAdmin
{
    private readonly NpgsqlDataSource _dataSource;
    private readonly Tables _tables;
    private readonly AdminStatements _statements;

    /// <summary>Creates an instance; it does not connect yet.</summary>
    /// <param name="dataSource">The database. The caller disposes it.</param>
    /// <param name="schema">The schema's name: 1 to 63 UTF-8 bytes.</param>
    /// <exception cref="ArgumentException">A schema can't have that name.</exception>
    public PostgresQueueAdmin(NpgsqlDataSource dataSource, string schema = "batchkit")
    {
        ArgumentNullException.ThrowIfNull(dataSource);
        QueueLimits.ThrowIfNoSchema(schema);
        _dataSource = dataSource;
        _tables = new Tables(schema);
        _statements = new AdminStatements(_tables);
    }

    /// <summary>Counts the messages of every queue by state, ordered by the queues' names.</summary>
    /// <remarks>It reads all rows: use it for people and dashboards, not in a loop.</remarks>
    /// <param name="cancellationToken">Cancels the call.</param>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses, as when the schema is missing.</exception>
    public Task<IReadOnlyList<QueueCounts>> ListAsync(CancellationToken cancellationToken = default) => Detached.UseAsync(_dataSource, ListAsync, cancellationToken);

    private async Task<IReadOnlyList<QueueCounts>> ListAsync(NpgsqlConnection connection, CancellationToken cancellationToken)
    {
        using var command = Command(connection, _statements.Count);
        var reader = await command.ExecuteReaderAsync(cancellationToken).ConfigureAwait(false);
        await using var __ = reader.ConfigureAwait(false);
        var queues = new List<QueueCounts>();
        while (await reader.ReadAsync(cancellationToken).ConfigureAwait(false))
        {
            queues.Add(new QueueCounts(
                reader.GetString(0), reader.GetInt16(1), reader.GetInt64(2), reader.GetInt64(3), reader.GetInt64(4), reader.GetInt64(5),
                reader.IsDBNull(6) ? null : reader.GetFieldValue<TimeSpan>(6)));
        }

        return queues;
    }

    /// <summary>Lists dead messages, the latest first.</summary>
    /// <param name="queue">The queue's name.</param>
    /// <param name="limit">The maximum number of messages to list; 100 by default.</param>
    /// <param name="cancellationToken">Cancels the call.</param>
    /// <exception cref="ArgumentOutOfRangeException">The limit is below 1.</exception>
    /// <exception cref="KeyNotFoundException">There is no such queue.</exception>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses, as when the schema is missing.</exception>
    public async Task<IReadOnlyList<DeadMessage>> ListDeadAsync(string queue, int limit = 100, CancellationToken cancellationToken = default)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(limit, 1);
        var (_, messages) = await RunAsync(queue, _statements.ListDead, ReadDeadAsync, cancellationToken, new NpgsqlParameter<int> { TypedValue = limit }).ConfigureAwait(false);
        return messages;
    }

    /// <summary>Moves dead messages back into their queue, with no attempts counted and in their original order, and wakes receivers.</summary>
    /// <remarks>
    /// A message stays dead, and is not counted, when its uniqueness key is in use again; of several dead messages with the same key, only the first is moved.
    /// </remarks>
    /// <param name="queue">The queue's name.</param>
    /// <param name="ids">The ids of the messages; all messages when null.</param>
    /// <param name="cancellationToken">Cancels the call.</param>
    /// <returns>How many were moved.</returns>
    /// <exception cref="KeyNotFoundException">There is no such queue.</exception>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses, as when the schema is missing.</exception>
    public async Task<int> ReplayAsync(string queue, IReadOnlyCollection<long>? ids = null, CancellationToken cancellationToken = default)
    {
        var (entry, replayed) = await RunAsync(queue, _statements.Replay, ExecuteAsync, cancellationToken, Chosen(ids)).ConfigureAwait(false);
        if (replayed > 0)
        {
            var notifier = new QueueNotifier(_dataSource, _tables, TimeSpan.Zero, TimeProvider.System, usesPreparedStatements: false);
            await using var _ = notifier.ConfigureAwait(false);
            notifier.Notify(entry);
        }

        return replayed;
    }

    /// <summary>Deletes dead messages.</summary>
    /// <inheritdoc cref="ReplayAsync" path="/param"/>
    /// <returns>How many were deleted.</returns>
    /// <exception cref="KeyNotFoundException">There is no such queue.</exception>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses, as when the schema is missing.</exception>
    public async Task<int> DeleteDeadAsync(string queue, IReadOnlyCollection<long>? ids = null, CancellationToken cancellationToken = default)
    {
        var (_, deleted) = await RunAsync(queue, _statements.DeleteDead, ExecuteAsync, cancellationToken, Chosen(ids)).ConfigureAwait(false);
        return deleted;
    }

    /// <summary>Deletes all waiting messages of a queue, and frees their uniqueness keys. Messages that are being handled, and dead ones, stay.</summary>
    /// <remarks>While it runs, no message of an ordered queue is claimed or settled.</remarks>
    /// <param name="queue">The queue's name.</param>
    /// <param name="cancellationToken">Cancels the call.</param>
    /// <returns>How many were deleted.</returns>
    /// <exception cref="KeyNotFoundException">There is no such queue.</exception>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses, as when the schema is missing.</exception>
    public async Task<long> PurgeAsync(string queue, CancellationToken cancellationToken = default)
    {
        var (_, purged) = await RunAsync(
            queue, _statements.Purge, static async (command, token) => (long)(await command.ExecuteScalarAsync(token).ConfigureAwait(false))!, cancellationToken).ConfigureAwait(false);
        return purged;
    }

    /// <summary>Deletes the waiting message with a uniqueness key, also one that failed and waits for its next attempt, and frees the key. A message that is being handled, or is dead, stays.</summary>
    /// <remarks>Workers that claim at the same moment decide it: the message is either deleted and never handled, or handled and not deleted.</remarks>
    /// <param name="queue">The queue's name.</param>
    /// <param name="uniqueKey">The key that the message was enqueued with; see <see cref="QueueMessageHeader.UniqueKeyProperty"/>.</param>
    /// <param name="cancellationToken">Cancels the call.</param>
    /// <returns>True when a message was deleted; false when none waits with the key.</returns>
    /// <exception cref="KeyNotFoundException">There is no such queue.</exception>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses, as when the schema is missing.</exception>
    public Task<bool> CancelAsync(string queue, string uniqueKey, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(queue);
        ArgumentNullException.ThrowIfNull(uniqueKey);
        return Detached.UseAsync(_dataSource, async (connection, token) =>
        {
            var entry = await FindAsync(connection, queue, token).ConfigureAwait(false);
            // PostgreSQL may not accept a text that no message can have as its key.
            return QueueLimits.RefuseQueue(uniqueKey) is null && await CancelAsync(connection, entry, uniqueKey, token).ConfigureAwait(false);
        }, cancellationToken);
    }

    private async Task<bool> CancelAsync(NpgsqlConnection connection, QueueEntry queue, string uniqueKey, CancellationToken cancellationToken)
    {
        // In one transaction, but two statements: what was parked before the lock was taken must be visible to the second.
        using var batch = new NpgsqlBatch(connection) { Timeout = 0 };
        foreach (var statement in new[] { _statements.LockForCancel, _statements.Cancel })
        {
            batch.BatchCommands.Add(new NpgsqlBatchCommand(statement)
            {
                Parameters = { new NpgsqlParameter<int> { TypedValue = queue.Id }, new NpgsqlParameter<string> { TypedValue = uniqueKey } },
            });
        }

        var reader = await batch.ExecuteReaderAsync(cancellationToken).ConfigureAwait(false);
        await using var _ = reader.ConfigureAwait(false);
        await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
        await reader.ReadAsync(cancellationToken).ConfigureAwait(false);
        var isCancelled = reader.GetInt64(0) > 0;
        // An error of the commit is reported after the row.
        await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
        return isCancelled;
    }

    // Returns the connection to the pool before the caller continues, because the caller may need one.
    private Task<(QueueEntry Queue, TResult Result)> RunAsync<TResult>(
        string queue, string statement, Func<NpgsqlCommand, CancellationToken, Task<TResult>> run, CancellationToken cancellationToken, NpgsqlParameter? second = null)
    {
        ArgumentNullException.ThrowIfNull(queue);
        return Detached.UseAsync(_dataSource, async (connection, token) =>
        {
            var entry = await FindAsync(connection, queue, token).ConfigureAwait(false);
            using var command = Command(connection, statement);
            command.Parameters.Add(new NpgsqlParameter<int> { TypedValue = entry.Id });
            if (second is not null)
                command.Parameters.Add(second);
            return (entry, await run(command, token).ConfigureAwait(false));
        }, cancellationToken);
    }

    private async Task<QueueEntry> FindAsync(NpgsqlConnection connection, string queue, CancellationToken cancellationToken)
    {
        // PostgreSQL may not accept a text that is not a valid queue name.
        if (QueueLimits.RefuseQueue(queue) is null)
        {
            using var command = Command(connection, _statements.Find);
            command.Parameters.Add(new NpgsqlParameter<string> { TypedValue = queue });
            var reader = await command.ExecuteReaderAsync(cancellationToken).ConfigureAwait(false);
            await using var _ = reader.ConfigureAwait(false);
            if (await reader.ReadAsync(cancellationToken).ConfigureAwait(false))
                return new QueueEntry(reader.GetInt32(0), queue, reader.GetInt16(1));
        }

        throw new KeyNotFoundException($"There is no queue '{queue}' in the schema '{_tables.Schema}'. Check both names; a queue is created by its first message, or when its receiver starts.");
    }

    // No time limit: the duration depends on the number of messages.
    private static NpgsqlCommand Command(NpgsqlConnection connection, string statement) => new(statement, connection) { CommandTimeout = 0 };

    private static NpgsqlParameter Chosen(IReadOnlyCollection<long>? ids) =>
        new() { NpgsqlDbType = NpgsqlDbType.Array | NpgsqlDbType.Bigint, Value = ids is null ? DBNull.Value : ids.ToArray() };

    private static Task<int> ExecuteAsync(NpgsqlCommand command, CancellationToken cancellationToken) => command.ExecuteNonQueryAsync(cancellationToken);

    private static async Task<IReadOnlyList<DeadMessage>> ReadDeadAsync(NpgsqlCommand command, CancellationToken cancellationToken)
    {
        var reader = await command.ExecuteReaderAsync(cancellationToken).ConfigureAwait(false);
        await using var _ = reader.ConfigureAwait(false);
        var messages = new List<DeadMessage>();
        while (await reader.ReadAsync(cancellationToken).ConfigureAwait(false))
            messages.Add(Read(reader));
        return messages;
    }

    private static DeadMessage Read(NpgsqlDataReader reader)
    {
        // Only ordered queues store the key in a column; the header always has it.
        var key = reader.IsDBNull(1) ? KeyOf(reader) : reader.GetString(1);
        return new DeadMessage(
            reader.GetInt64(0), key, reader.GetInt16(2), reader.GetString(3), reader.GetFieldValue<DateTimeOffset>(4), reader.GetFieldValue<DateTimeOffset>(5),
            reader.GetFieldValue<byte[]>(7));
    }

    private static string? KeyOf(NpgsqlDataReader reader)
    {
        try
        {
            return reader.IsDBNull(6) ? null : StoredHeader.Read(reader.GetFieldValue<byte[]>(6))?.Key;
        }
        catch (FrameFormatException)
        {
            // The message and the others are shown even if this version can't read the header.
            return null;
        }
    }
}

/// <summary>How many messages a queue has in each state.</summary>
/// <param name="Queue">Its name.</param>
/// <param name="Shards">The number of shards of an ordered queue; 0 for a queue without order.</param>
/// <param name="Ready">Messages that can be claimed now.</param>
/// <param name="Delayed">New and failed messages that wait until they are due.</param>
/// <param name="Claimed">Messages that a worker holds.</param>
/// <param name="Dead">Messages that were given up.</param>
/// <param name="OldestAge">The time since the oldest ready or claimed message was enqueued; null when there is no such message.</param>
public sealed record QueueCounts(string Queue, int Shards, long Ready, long Delayed, long Claimed, long Dead, TimeSpan? OldestAge);

/// <summary>A message that was given up.</summary>
/// <param name="Id">Its number; see <see cref="QueueMessage.Id"/>.</param>
/// <param name="Key">The key that it was enqueued with; null when it had none, or this version can't read its header.</param>
/// <param name="Attempts">How many times it was handled.</param>
/// <param name="Error">Why its last attempt failed.</param>
/// <param name="EnqueuedAt">When it was enqueued.</param>
/// <param name="DiedAt">When it was given up.</param>
/// <param name="Payload">Its payload.</param>
public sealed record DeadMessage(long Id, string? Key, int Attempts, string Error, DateTimeOffset EnqueuedAt, DateTimeOffset DiedAt, ReadOnlyMemory<byte> Payload);

/// <summary>The statements of <see cref="PostgresQueueAdmin"/>.</summary>
internal sealed class AdminStatements(Tables tables)
{
    /// <summary>$1: the name.</summary>
    public string Find { get; } = $"select id, shards from {tables.Queues} where name = $1";

    /// <summary>All queues. The messages of a leased shard's batch are still rows of <c>messages</c>; those of a claim are not.</summary>
    public string Count { get; } = $"""
        with in_hand as materialized (
            select pg_catalog.unnest(in_hand) as id from {tables.Shards} where until is not null
        ), blocking as materialized (
            select queue, shard, coalesce(key, '') as key, key is null as has_none, pg_catalog.min(id) as id
            from {tables.Messages} where shard is not null and due_at > pg_catalog.now() group by 1, 2, 3, 4
        ), waiting as (
            select m.queue, m.enqueued_at, m.id in (select id from in_hand) as is_claimed,
                   m.due_at is not null and m.due_at > pg_catalog.now() or b.id is not null and b.id < m.id as is_delayed
            from {tables.Messages} m left join blocking b
              on b.queue = m.queue and b.shard = m.shard and b.key = coalesce(m.key, '') and b.has_none = (m.key is null)
        ), counted as (
            select queue, pg_catalog.count(*) filter (where not is_claimed and not is_delayed) as ready, pg_catalog.count(*) filter (where not is_claimed and is_delayed) as delayed,
                   pg_catalog.count(*) filter (where is_claimed) as claimed, 0::bigint as dead, pg_catalog.min(enqueued_at) filter (where is_claimed or not is_delayed) as oldest
            from waiting group by queue
            union all
            select c.queue, 0, 0, pg_catalog.count(*), 0, pg_catalog.min(t.enqueued_at) from {tables.Claims} c cross join lateral pg_catalog.unnest(c.enqueued_at) as t(enqueued_at) group by c.queue
            union all
            select queue, 0, 0, 0, pg_catalog.count(*), null from {tables.Dead} group by queue
        )
        select q.name, q.shards, coalesce(pg_catalog.sum(n.ready), 0)::bigint, coalesce(pg_catalog.sum(n.delayed), 0)::bigint, coalesce(pg_catalog.sum(n.claimed), 0)::bigint, coalesce(pg_catalog.sum(n.dead), 0)::bigint,
               case when pg_catalog.min(n.oldest) is not null then greatest(pg_catalog.now() - pg_catalog.min(n.oldest), interval '0') end
        from {tables.Queues} q left join counted n on n.queue = q.id
        group by q.id order by q.name
        """;

    /// <summary>$1: the queue. $2: the limit.</summary>
    public string ListDead { get; } = $"""
        select id, key, attempts, error, enqueued_at, died_at, header, payload
        from {tables.Dead} where queue = $1 order by died_at desc, id desc limit $2
        """;

    /// <summary>$1: the queue. $2: the ids; all when null. Of several messages with the same uniqueness key only the first is moved, and none while the key is in use.</summary>
    public string Replay { get; } = $"""
        with chosen as materialized (
            select id, unique_key from {tables.Dead} where queue = $1 and ($2 is null or id = any($2)) for update
        ), candidates as (
            select distinct on (unique_key) unique_key, id from chosen where unique_key is not null order by unique_key, id
        ), taken as (
            insert into {tables.UniqueKeys} (queue, key) select $1, unique_key from candidates where {tables.KeyIsFree("$1", "candidates.unique_key")} order by unique_key on conflict do nothing returning key
        ), revived as (
            select id from chosen where unique_key is null
            union all
            select c.id from candidates c join taken t on t.key = c.unique_key
        ), moved as (
            delete from {tables.Dead} d using revived r where d.id = r.id
            returning d.id, d.queue, d.enqueued_at, d.rank, d.shard, d.key, d.unique_key, d.header, d.payload
        )
        insert into {tables.Messages} (id, queue, enqueued_at, rank, shard, key, unique_key, header, payload) overriding system value
        select id, queue, enqueued_at, rank, shard, key, unique_key, header, payload from moved order by id
        """;

    /// <summary>$1: the queue. $2: the ids; all when null.</summary>
    public string DeleteDead { get; } = $"delete from {tables.Dead} where queue = $1 and ($2 is null or id = any($2))";

    /// <summary>$1: the queue. $2: the key. Locks the shard of a message with that key, so that no worker takes it, nor parks a message behind it, meanwhile.</summary>
    public string LockForCancel { get; } = $"select pg_catalog.count(*) from ({LockedShard(tables)}) as locked";

    /// <summary>$1: the queue. $2: the key. Each parked message of an ordered queue has a delayed one of its key before it, so when that is deleted, the next one takes its place, and upkeep makes it ready.</summary>
    public string Cancel { get; } = $"""
        with leases as materialized ({LockedShard(tables)}), gone as (
            delete from {tables.Messages} as m where m.queue = $1 and m.unique_key = $2 and not exists (select from leases where leases.shard = m.shard and leases.until is not null and m.id = any(leases.in_hand))
            returning m.id, m.shard, m.due_at, m.unique_key, {SecondVersion.KeyHash("m")} as hash
        ), freed as (
            delete from {tables.UniqueKeys} as k using gone where k.queue = $1 and k.key = gone.unique_key
        ), next as (
            select (select n.ctid from {tables.Messages} as n where n.queue = $1 and n.shard = gone.shard and n.due_at is not null and {SecondVersion.KeyHash("n")} = gone.hash and n.id > gone.id order by n.id limit 1) as ctid
            from gone where gone.shard is not null and gone.due_at is not null
        ), due as (
            update {tables.Messages} as m set due_at = pg_catalog.now() from next where m.ctid = next.ctid and m.due_at = 'infinity'
        )
        select pg_catalog.count(*) from gone
        """;

    /// <summary>$1: the queue. Locks the shards' rows, so that no worker takes messages that are being deleted.</summary>
    public string Purge { get; } = $"""
        with leases as materialized (
            select in_hand, until from {tables.Shards} where queue = $1 order by shard for update
        ), purged as (
            delete from {tables.Messages} where queue = $1 and id not in (select pg_catalog.unnest(in_hand) from leases where until is not null)
            returning unique_key
        ), freed as (
            delete from {tables.UniqueKeys} k using purged p where k.queue = $1 and k.key = p.unique_key
        )
        select pg_catalog.count(*) from purged
        """;

    private static string LockedShard(Tables tables) => $"""
        select s.shard, s.in_hand, s.until from {tables.Shards} as s
        where s.queue = $1 and s.shard in (select m.shard from {tables.Messages} as m where m.queue = $1 and m.unique_key = $2) order by s.shard for update
        """;
}
