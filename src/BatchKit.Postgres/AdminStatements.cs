using BatchKit.Postgres.Frames;
using BatchKit.Postgres.Schema;

namespace BatchKit.Postgres;

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

    /// <summary>
    /// $1: the queue. $2: the ids; all when null. $3: the mark of this replay. Of several messages with the same uniqueness key only the first is moved, and none while the key is in use. A mark in the place of no
    /// header says nothing to receivers of other messages than frames.
    /// </summary>
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
        select id, queue, enqueued_at, rank, shard, key, unique_key, case when header is null or {SharedOf("header")} = {SharedOf("$3")} then $3 else header end, payload from moved order by id
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

    private static string SharedOf(string mark) => $"pg_catalog.substr({mark}, 1, {ReplayedFrame.SharedBytes})";

    private static string LockedShard(Tables tables) => $"""
        select s.shard, s.in_hand, s.until from {tables.Shards} as s
        where s.queue = $1 and s.shard in (select m.shard from {tables.Messages} as m where m.queue = $1 and m.unique_key = $2) order by s.shard for update
        """;
}
