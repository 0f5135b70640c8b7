using BatchKit.Postgres.Schema;

namespace BatchKit.Postgres.Ordered;

/// <summary>The statements of ordered queues. A shard's row is the lease of its messages, which stay rows of <c>messages</c> until they are completed.</summary>
/// <remarks>
/// The holder of a shard knows its epoch, and each statement that changes the shard's messages first locks the shard's row by that epoch. The statements of an exchange run in one transaction, each with a
/// snapshot of its own (READ COMMITTED): a batch is read after its shard was locked, so it never contains messages that an earlier holder has deleted.
/// </remarks>
internal sealed class ShardStatements(Tables tables)
{
    // The statement that chooses a shard passes it to the one that reads the batch, in the same round trip. The setting ends with the transaction.
    private const string Chosen = "nullif(pg_catalog.current_setting('batchkit.shard', true), '')::smallint";

    // After a failover to a standby that lagged, epochs and messages' numbers go back. So epochs rise by random steps, or a new lease could have a lost one's epoch. And a holder settles nothing behind the last
    // message that its lease, as the server knows it, has in hand, because a new message may have a lost one's number.
    private const string EpochStep = "1048576";

    /// <summary>Deletes completed messages: $1 queue, $2 shard, $3 epoch, $4 the messages. One row: 1, or 0 when the lease had ended.</summary>
    public string SettleDone { get; } = $"""
        with lease as materialized (
            select in_hand[pg_catalog.cardinality(in_hand)] as last from {tables.Shards} where queue = $1 and shard = $2 and epoch = $3 and until is not null for update
        ), gone as (
            delete from {tables.Messages} m using lease where m.queue = $1 and m.shard = $2 and m.id = any($4) and m.id <= lease.last returning m.unique_key
        ), freed as (
            delete from {tables.UniqueKeys} k using gone where gone.unique_key is not null and k.queue = $1 and k.key = gone.unique_key
        )
        select pg_catalog.count(*) from lease
        """;

    /// <summary>Settles messages with different outcomes: $1 to $3 as above; arrays: $4 messages, $5 outcomes, $6 earlier attempts, $7 pauses, $8 reasons.</summary>
    public string SettleMixed { get; } = $"""
        with lease as materialized (
            select in_hand[pg_catalog.cardinality(in_hand)] as last from {tables.Shards} where queue = $1 and shard = $2 and epoch = $3 and until is not null for update
        ), said as materialized (
            select said.* from lease, {Rows.Of("$4", "$5", "$6", "$7", "$8")} as said(id, outcome, attempts, pause, reason) where said.id <= lease.last
        ), gone as (
            delete from {tables.Messages} m using said
            where m.queue = $1 and m.shard = $2 and m.id = said.id and said.outcome in ({(int)MessageOutcome.Done}, {(int)MessageOutcome.Dead})
            returning m.*, said.outcome, said.reason
        ), buried as (
            insert into {tables.Dead} (id, queue, enqueued_at, rank, attempts, shard, key, unique_key, error, header, payload)
            select id, queue, enqueued_at, rank, least(attempts + 1, {short.MaxValue}), shard, key, unique_key, reason, header, payload
            from gone where outcome = {(int)MessageOutcome.Dead}
        ), freed as (
            delete from {tables.UniqueKeys} k using gone where gone.unique_key is not null and k.queue = $1 and k.key = gone.unique_key
        ), again as (
            -- Not when the attempt is counted already: a settlement is repeated when it is unknown whether it was committed.
            update {tables.Messages} m
            set attempts = least(m.attempts + case when said.outcome = {(int)MessageOutcome.Retry} then 1 else 0 end, {short.MaxValue}), due_at = pg_catalog.now() + said.pause, error = coalesce(said.reason, m.error)
            from said
            where m.queue = $1 and m.shard = $2 and m.id = said.id and said.outcome in ({(int)MessageOutcome.Retry}, {(int)MessageOutcome.Released}) and m.attempts = said.attempts
        )
        select pg_catalog.count(*) from lease
        """;

    /// <summary>Gives a shard back: $1 queue, $2 shard, $3 epoch.</summary>
    public string Release { get; } = $"""
        update {tables.Shards} set until = null, worker = null, in_hand = null where queue = $1 and shard = $2 and epoch = $3 and until is not null
        """;

    /// <summary>
    /// Chooses the next shard: the held one while it has work and its turn lasts, else the free one with work whose last turn began first, else the held one again. Gives back the held shard when it chooses
    /// another. $1 queue, $2 held shard or -1, $3 its epoch, $4 the length of a turn. One row: the shard, or an empty text.
    /// </summary>
    public string Choose { get; } = $"""
        with own as materialized (
            select s.shard, s.served_at > pg_catalog.now() - $4 as stays
            from {tables.Shards} s
            cross join lateral {Waiting(tables, "s.shard")} waiting
            cross join lateral {FirstReady(tables, "s.shard")} ready
            where s.queue = $1 and s.shard = $2 and s.epoch = $3 and s.until is not null
        ), free as materialized (
            select s.shard
            from (
                select shard, served_at from {tables.Shards}
                where queue = $1 and until is null and not exists (select from own where stays)
                order by served_at nulls first, shard offset 0
            ) f
            cross join lateral {Waiting(tables, "f.shard")} waiting
            cross join lateral {FirstReady(tables, "f.shard")} ready
            join {tables.Shards} s on s.queue = $1 and s.shard = f.shard and s.until is null
            order by f.served_at nulls first, f.shard
            limit 1
            for update of s skip locked
        ), next as materialized (
            select coalesce((select shard from free), (select shard from own)) as shard
        ), released as (
            update {tables.Shards} s set until = null, worker = null, in_hand = null from next
            where s.queue = $1 and s.shard = $2 and s.epoch = $3 and s.until is not null and s.shard is distinct from next.shard
        )
        select pg_catalog.set_config('batchkit.shard', coalesce(shard::pg_catalog.text, ''), true) from next
        """;

    /// <summary>
    /// Reads the next batch of the chosen shard and leases it: $1 queue, $2 most messages, $3 most bytes, $4 the lease's length, $5 worker, $6 the length of a turn. A retried message is
    /// a batch of its own. Without a batch the shard is given back.
    /// </summary>
    public string Take { get; } = $"""
        with ready as materialized (
            select m.* from {Waiting(tables, Chosen)} waiting
            cross join lateral (
                select id, attempts, rank, enqueued_at, key, header, payload from {tables.Messages} m
                where queue = $1 and shard = {Chosen} and {IsReady} order by id limit $2
            ) m
        ), batch as materialized (
            select * from (
                select *, pg_catalog.row_number() over so_far as place, pg_catalog.bool_or(attempts > 0) over so_far as has_retry, pg_catalog.sum(pg_catalog.octet_length(payload)) over so_far as bytes
                from ready window so_far as (order by id)
            ) r
            where place = 1 or (not has_retry and bytes <= $3)
        ), lease as (
            update {tables.Shards} s
            set until = case when taken.ids is not null then pg_catalog.now() + $4 end,
                worker = case when taken.ids is not null then $5 end,
                in_hand = taken.ids,
                epoch = s.epoch + case when s.until is null then 1 + pg_catalog.floor(pg_catalog.random() * {EpochStep}::double precision)::bigint else 0 end,
                served_at = case when s.until is not null and s.served_at > pg_catalog.now() - $6 then s.served_at else pg_catalog.now() end
            from (select pg_catalog.array_agg(id order by id) as ids from batch) taken
            where s.queue = $1 and s.shard = {Chosen}
            returning s.shard, s.epoch
        )
        select l.shard, l.epoch, b.id, b.attempts, b.rank, b.enqueued_at, b.key, b.header, b.payload from lease l cross join batch b order by b.id
        """;

    /// <summary>Renews leases: $1 queue, arrays $2 shards and $3 epochs, $4 the lease's length. One row for each lease that still held.</summary>
    public string Renew { get; } = $"""
        update {tables.Shards} s set until = pg_catalog.now() + $4 from {Rows.Of("$2", "$3")} as held(shard, epoch)
        where s.queue = $1 and s.shard = held.shard and s.epoch = held.epoch and s.until is not null
        returning s.shard, s.epoch
        """;

    /// <summary>
    /// Ends leases past their time limit and counts an attempt for their messages, deletes old dead rows, and looks for work: $1 queue, $2 most attempts, $3 whether a poison message blocks, $4 its pause,
    /// $5 how long dead rows are kept, or null, $6 the lease's length as text, for the error. One row: has work, returned, buried, time to the next delayed message.
    /// </summary>
    public string Upkeep { get; } = $"""
        with ended as materialized (
            select shard, worker, in_hand from {tables.Shards} where queue = $1 and until <= pg_catalog.now() for update skip locked
        ), freed as (
            update {tables.Shards} s set until = null, worker = null, in_hand = null, epoch = s.epoch + 1 from ended where s.queue = $1 and s.shard = ended.shard
        ), struck as materialized (
            select ended.shard, m.id, m.attempts + 1 >= $2 as is_last, 'The claim of ' || ended.worker || ' ended: it was not settled, nor renewed, within ' || $6 || '.' as reason
            from ended cross join lateral pg_catalog.unnest(ended.in_hand) as held(id)
            join {tables.Messages} m on m.queue = $1 and m.shard = ended.shard and m.id = held.id
        ), returned as (
            update {tables.Messages} m
            set attempts = least(m.attempts + 1, {short.MaxValue}), due_at = pg_catalog.now() + case when struck.is_last then $4 else interval '0' end, error = struck.reason
            from struck where m.queue = $1 and m.shard = struck.shard and m.id = struck.id and ($3 or not struck.is_last)
            returning m.id
        ), gone as (
            delete from {tables.Messages} m using struck where m.queue = $1 and m.shard = struck.shard and m.id = struck.id and struck.is_last and not $3
            returning m.*, struck.reason
        ), buried as (
            insert into {tables.Dead} (id, queue, enqueued_at, rank, attempts, shard, key, unique_key, error, header, payload)
            select id, queue, enqueued_at, rank, least(attempts + 1, {short.MaxValue}), shard, key, unique_key, reason, header, payload from gone
        ), unlocked as (
            delete from {tables.UniqueKeys} k using gone where gone.unique_key is not null and k.queue = $1 and k.key = gone.unique_key
        ), forgotten as (
            delete from {tables.Dead} d
            using (select id from {tables.Dead} where queue = $1 and died_at < pg_catalog.now() - $5::interval order by died_at limit 1000 for update skip locked) old
            where d.id = old.id
        )
        select exists (select from ended) or exists (
                   select from {tables.Shards} s
                   cross join lateral {Waiting(tables, "s.shard")} waiting
                   cross join lateral {FirstReady(tables, "s.shard")} ready
                   where s.queue = $1 and s.until is null),
               (select pg_catalog.count(*) from returned),
               (select pg_catalog.count(*) from gone),
               (select least(pg_catalog.min(delayed.due_at), pg_catalog.min(s.until) filter (where s.until > pg_catalog.now())) - pg_catalog.now() from {tables.Shards} s
                left join lateral (
                    select due_at from {tables.Messages} where queue = $1 and shard = s.shard and due_at > pg_catalog.now() order by due_at limit 1
                ) delayed on true
                where s.queue = $1)
        """;

    // Messages that do not follow a delayed message of the same key. A map, because with a join the planner might compare each of 10,000 messages after a delayed one with every delayed message.
    private static string IsReady => $"m.id < coalesce((waiting.first ->> coalesce(m.key, ''))::bigint, {long.MaxValue})";

    // The first delayed message of each key. If a name repeats, a jsonb keeps its last value (manual, section 8.14).
    private static string Waiting(Tables tables, string shard) => $"""
        (select pg_catalog.jsonb_object_agg(coalesce(key, ''), id order by id desc) as first from {tables.Messages} where queue = $1 and shard = {shard} and due_at > pg_catalog.now())
        """;

    private static string FirstReady(Tables tables, string shard) => $"""
        (select from {tables.Messages} m where m.queue = $1 and m.shard = {shard} and {IsReady} order by m.id limit 1)
        """;
}
