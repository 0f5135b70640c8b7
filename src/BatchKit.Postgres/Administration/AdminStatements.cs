using BatchKit.Postgres.Schema;

namespace BatchKit.Postgres.Administration;

/// <summary>The statements that look at queues and put them right.</summary>
internal sealed class AdminStatements(Tables tables)
{
    /// <summary>$1: the name.</summary>
    public string Find { get; } = $"select id, shards from {tables.Queues} where name = $1";

    /// <summary>All queues. What leased shards have in hand still lies among the messages; what a claim holds does not.</summary>
    public string Count { get; } = $"""
        with in_hand as materialized (
            select unnest(in_hand) as id from {tables.Shards} where until is not null
        ), blocking as materialized (
            select queue, shard, coalesce(key, '') as key, key is null as has_none, min(id) as id
            from {tables.Messages} where shard is not null and due_at > now() group by 1, 2, 3, 4
        ), waiting as (
            select m.queue, m.enqueued_at, m.id in (select id from in_hand) as is_claimed,
                   m.due_at is not null and m.due_at > now() or b.id is not null and b.id < m.id as is_delayed
            from {tables.Messages} m left join blocking b
              on b.queue = m.queue and b.shard = m.shard and b.key = coalesce(m.key, '') and b.has_none = (m.key is null)
        ), counted as (
            select queue, count(*) filter (where not is_claimed and not is_delayed) as ready, count(*) filter (where not is_claimed and is_delayed) as delayed,
                   count(*) filter (where is_claimed) as claimed, 0::bigint as dead, min(enqueued_at) filter (where is_claimed or not is_delayed) as oldest
            from waiting group by queue
            union all
            select c.queue, 0, 0, count(*), 0, min(t.enqueued_at) from {tables.Claims} c cross join lateral unnest(c.enqueued_at) as t(enqueued_at) group by c.queue
            union all
            select queue, 0, 0, 0, count(*), null from {tables.Dead} group by queue
        )
        select q.name, q.shards, coalesce(sum(n.ready), 0)::bigint, coalesce(sum(n.delayed), 0)::bigint, coalesce(sum(n.claimed), 0)::bigint, coalesce(sum(n.dead), 0)::bigint,
               case when min(n.oldest) is not null then greatest(now() - min(n.oldest), interval '0') end
        from {tables.Queues} q left join counted n on n.queue = q.id
        group by q.id order by q.name
        """;

    /// <summary>$1: the queue. $2: the limit.</summary>
    public string ListDead { get; } = $"""
        select id, key, attempts, error, enqueued_at, died_at, header, payload
        from {tables.Dead} where queue = $1 order by died_at desc, id desc limit $2
        """;

    /// <summary>$1: the queue. $2: the ids; all when null. Of several with one uniqueness key the first comes back, and none while the key is in use.</summary>
    public string Replay { get; } = $"""
        with chosen as materialized (
            select id, unique_key from {tables.Dead} where queue = $1 and ($2 is null or id = any($2)) for update
        ), candidates as (
            select distinct on (unique_key) unique_key, id from chosen where unique_key is not null order by unique_key, id
        ), taken as (
            insert into {tables.UniqueKeys} (queue, key) select $1, unique_key from candidates order by unique_key on conflict do nothing returning key
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

    /// <summary>$1: the queue. The shards' rows are locked, so that no worker takes in hand what is being deleted.</summary>
    public string Purge { get; } = $"""
        with leases as materialized (
            select in_hand, until from {tables.Shards} where queue = $1 order by shard for update
        ), purged as (
            delete from {tables.Messages} where queue = $1 and id not in (select unnest(in_hand) from leases where until is not null)
            returning unique_key
        ), freed as (
            delete from {tables.UniqueKeys} k using purged p where k.queue = $1 and k.key = p.unique_key
        )
        select count(*) from purged
        """;
}
