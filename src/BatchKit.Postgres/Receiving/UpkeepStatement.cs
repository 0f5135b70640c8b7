using BatchKit.Postgres.Schema;

namespace BatchKit.Postgres.Receiving;

/// <summary>The one statement with which a receiver of a queue without order looks after it.</summary>
internal static class UpkeepStatement
{
    // What one statement gives back, makes ready and forgets; the next one goes on. Few claims, because each may have megabytes, and a statement that took longer than it may would never come to its end.
    private const int MaxClaims = 10;
    private const int MaxRows = 10_000;

    /// <summary>Parameters: queue, most attempts, retention (null keeps all), claim's time limit as a person reads it.</summary>
    public static string Of(Tables tables) => $"""
        with ended as (
            delete from {tables.Claims} where token in (
                select token from {tables.Claims} where queue = $1 and until <= now() order by until limit {MaxClaims} for update skip locked)
            returning worker, attempts, ids, ranks, enqueued_at, unique_keys, headers, payloads
        ), judged as materialized (
            select ended.attempts, m.*, 'The claim of ' || ended.worker || ' ended: it was not settled, nor renewed, within ' || $4 || '.' as error
            from ended, unnest(ended.ids, ended.ranks, ended.enqueued_at, ended.unique_keys, ended.headers, ended.payloads) as m(id, rank, enqueued_at, unique_key, header, payload)
        ), back as (
            insert into {tables.Messages} (id, enqueued_at, due_at, queue, rank, attempts, unique_key, error, header, payload) overriding system value
            select id, enqueued_at, now(), $1, rank, attempts + 1, unique_key, error, header, payload from judged where attempts + 1 < $2
            returning 1
        ), buried as (
            insert into {tables.Dead} (id, queue, enqueued_at, rank, attempts, unique_key, error, header, payload)
            select id, $1, enqueued_at, rank, attempts + 1, unique_key, error, header, payload from judged where attempts + 1 >= $2
            returning unique_key
        ), freed as (
            delete from {tables.UniqueKeys} as u using buried where u.queue = $1 and u.key = buried.unique_key
        ), due as (
            update {tables.Messages} set due_at = null where ctid = any(array(
                select ctid from {tables.Messages} where queue = $1 and due_at <= now() and due_at is not null and attempts = 0 and shard is null
                order by due_at limit {MaxRows} for update skip locked))
            returning 1
        ), forgotten as (
            delete from {tables.Dead} where ctid = any(array(
                select ctid from {tables.Dead} where queue = $1 and died_at < now() - $3::interval order by died_at limit {MaxRows} for update skip locked))
        ), counted as (
            select (select count(*) from back)::int as returned, (select count(*) from buried)::int as buried, (select count(*) from due)::int as due
        )
        select returned > 0 or due > 0 or ready.id is not null
                or exists (select from {tables.Messages} where queue = $1 and attempts > 0 and shard is null and due_at <= now()),
            returned, buried,
            least(
                (select due_at from {tables.Messages} where queue = $1 and due_at > now() and attempts = 0 and shard is null order by due_at limit 1),
                (select due_at from {tables.Messages} where queue = $1 and due_at > now() and attempts > 0 and shard is null order by due_at limit 1),
                (select until from {tables.Claims} where queue = $1 and until > now() order by until limit 1)) - now(),
            ready.rank, ready.id
        from counted left join (
            select rank, id from {tables.Messages} where queue = $1 and due_at is null and shard is null order by rank, id limit 1) as ready on true
        """;
}
