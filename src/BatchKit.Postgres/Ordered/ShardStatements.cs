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

    private const string Locked = "pg_catalog.current_setting('batchkit.shards')::smallint[]";

    // How many delayed messages one upkeep makes ready, and how many of those parked behind one of them.
    private const int MaxDue = 1000;

    // How many messages one exchange looks at.
    private const int MaxLook = 10_000;

    // The time between two such runs of one key.
    private const string Pause = "interval '100 milliseconds'";

    // After a failover to a standby that lagged, epochs and messages' numbers go back. So epochs rise by random steps, or a new lease could have a lost one's epoch. And a holder settles nothing behind the last
    // message that its lease, as the server knows it, has in hand, because a new message may have a lost one's number.
    private const string EpochStep = "1048576";

    /// <summary>Deletes completed messages: $1 queue, $2 shard, $3 epoch, $4 the messages. One row: 1, or 0 when the lease had ended.</summary>
    public string SettleDone { get; } = $"""
        with lease as materialized (
            select in_hand[pg_catalog.cardinality(in_hand)] as last from {tables.Shards} where queue = $1 and shard = $2 and epoch = $3 and until is not null for update
        ), gone as (
            delete from {tables.Messages} m using lease where m.queue = $1 and m.shard = $2 and m.id = any($4) and m.id <= lease.last and m.due_at is null returning m.unique_key
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
            where m.queue = $1 and m.shard = $2 and m.id = said.id and m.due_at is null and said.outcome in ({(int)MessageOutcome.Done}, {(int)MessageOutcome.Dead})
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
            where m.queue = $1 and m.shard = $2 and m.id = said.id and m.due_at is null and said.outcome in ({(int)MessageOutcome.Retry}, {(int)MessageOutcome.Released}) and m.attempts = said.attempts
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
            select s.shard, {Lasts("s.turn_at", "$4")} as stays
            from {tables.Shards} s
            cross join lateral {FirstReady(tables, "s.shard")} ready
            where s.queue = $1 and s.shard = $2 and s.epoch = $3 and s.until is not null
        ), free as materialized (
            select s.shard
            from (
                select shard, case when turn_at <= pg_catalog.now() + $4 then turn_at end as turn_at from {tables.Shards}
                where queue = $1 and until is null and not exists (select from own where stays)
                order by 2 nulls first, shard offset 0
            ) f
            cross join lateral {FirstReady(tables, "f.shard")} ready
            join {tables.Shards} s on s.queue = $1 and s.shard = f.shard and s.until is null
            order by f.turn_at nulls first, f.shard
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

    /// <summary>Returns whether messages of a lease that has ended are still as they were: $1 queue, $2 shard, $3 the messages, $4 earlier attempts of the first one.</summary>
    public string Unsettled { get; } = $"""
        select exists (select from {tables.Messages} m where m.queue = $1 and m.shard = $2 and m.id = any($3) and m.due_at is null and m.attempts = $4)
        """;

    /// <summary>Waits for all exchanges of the queue that are under way, one of which may be a lost attempt of this one: $1 queue.</summary>
    public string Await { get; } = $"select pg_catalog.count(*) from (select from {tables.Shards} where queue = $1 order by shard for update) as locked";

    /// <summary>Chooses the shard that a lost attempt of this exchange has leased: $1 queue, $2 the exchange's token. One row: the shard, or an empty text.</summary>
    public string Adopt { get; } = $"""
        select pg_catalog.set_config('batchkit.shard', coalesce((select shard::pg_catalog.text from {tables.Shards} where queue = $1 and token = $2 and until is not null limit 1), ''), true)
        """;

    /// <summary>
    /// Reads the next batch of the chosen shard and leases it: $1 queue, $2 most messages, $3 most bytes, $4 the lease's length, $5 worker, $6 the length of a turn, $7 the exchange's token. Parks the
    /// messages that it passes, because they are behind a delayed or parked one of the same key: no exchange looks at them again. Where none is delayed, it does not look for them. Frees the uniqueness keys of messages that say so. A retried message is a batch of its own. Without a batch the shard is given back.
    /// </summary>
    public string Take { get; } = $"""
        with delayed as materialized (
            select exists (select from {tables.Messages} b where b.queue = $1 and b.shard = {Chosen} and b.due_at is not null) as has_any
        ), unblocked as materialized (
            select m.* from (
                select ctid, id, attempts, rank, enqueued_at, key, header, payload, unique_key, frees_at_claim, {SecondVersion.KeyHash("messages")} as hash from {tables.Messages} as messages
                where queue = $1 and shard = {Chosen} and due_at is null order by id limit {MaxLook}
            ) m
            where not (select has_any from delayed) or m.id < coalesce((
                select b.id from {tables.Messages} b where b.queue = $1 and b.shard = {Chosen} and b.due_at is not null and {SecondVersion.KeyHash("b")} = m.hash order by b.id limit 1
            ), {long.MaxValue})
            order by m.id limit $2
        ), looked as materialized (
            select case when (select pg_catalog.count(*) from unblocked) = $2 then (select pg_catalog.max(id) from unblocked) else (
                select pg_catalog.max(l.id) from (select id from {tables.Messages} where queue = $1 and shard = {Chosen} and due_at is null order by id limit {MaxLook}) l
            ) end as upto
        ), parked as (
            update {tables.Messages} m set due_at = 'infinity' from looked
            where (select has_any from delayed) and m.queue = $1 and m.shard = {Chosen} and m.due_at is null and m.id <= looked.upto and m.id not in (select id from unblocked)
        ), batch as materialized (
            select * from (
                select *, pg_catalog.row_number() over so_far as place, pg_catalog.bool_or(attempts > 0) over so_far as has_retry, pg_catalog.sum({Tables.MessageSize}) over so_far as bytes
                from unblocked window so_far as (order by id)
            ) r
            where place = 1 or (not has_retry and bytes <= $3)
        ), unkeyed as (
            update {tables.Messages} m set unique_key = null from batch where m.ctid = batch.ctid and batch.frees_at_claim and batch.unique_key is not null
        ), freed as (
            delete from {tables.UniqueKeys} k using batch where batch.frees_at_claim and batch.unique_key is not null and k.queue = $1 and k.key = batch.unique_key
        ), lease as (
            update {tables.Shards} s
            set until = case when taken.ids is not null then pg_catalog.now() + $4 end,
                worker = case when taken.ids is not null then $5 end,
                token = $7,
                in_hand = taken.ids,
                epoch = s.epoch + case when s.until is null then 1 + pg_catalog.floor(pg_catalog.random() * {EpochStep}::double precision)::bigint else 0 end,
                turn_at = case when s.until is not null and {Lasts("s.turn_at", "$6")} then s.turn_at else pg_catalog.now() end
            from (select pg_catalog.array_agg(id order by id) as ids from batch) taken
            where s.queue = $1 and s.shard = {Chosen}
            returning s.shard, s.epoch
        )
        select l.shard, l.epoch, b.id, b.attempts, b.rank, b.enqueued_at, b.key, b.header, b.payload from lease l cross join batch b order by b.id
        """;

    /// <summary>Renews leases, in the order in which all who wait for several shards lock them: $1 queue, arrays $2 shards and $3 epochs, $4 the lease's length. One row for each lease that still held.</summary>
    public string Renew { get; } = $"""
        with held as materialized (
            select s.shard from {tables.Shards} s join {Rows.Of("$2", "$3")} as h(shard, epoch) on s.shard = h.shard and s.epoch = h.epoch
            where s.queue = $1 and s.until is not null order by s.shard for update of s
        )
        update {tables.Shards} s set until = pg_catalog.now() + $4 from held where s.queue = $1 and s.shard = held.shard
        returning s.shard, s.epoch
        """;

    /// <summary>
    /// Locks the shards that need upkeep, except those of an exchange that is under way: the next upkeep finds those. $1 queue, $2 most
    /// leases to end. Whoever parks a message has its shard locked too, so the statement after this one sees all
    /// messages that are parked.
    /// </summary>
    public string LockForUpkeep { get; } = $$"""
        select pg_catalog.set_config('batchkit.shards', coalesce((select pg_catalog.array_agg(locked.shard)::pg_catalog.text from (
            select s.shard from {{tables.Shards}} s
            where s.queue = $1 and (s.shard = any(array(select e.shard from {{tables.Shards}} e where e.queue = $1 and e.until <= pg_catalog.now() order by e.until limit $2)) or s.shard = any(array(select shard from ({{Due(tables)}} order by due_at limit {{MaxDue}}) due)))
            order by s.shard for update skip locked) as locked), '{}'), true)
        """;

    /// <summary>
    /// Ends leases past their time limit and counts an attempt for their messages, makes due messages ready, deletes old dead rows, and looks for work: $1 queue, $2 most attempts, $3 whether a poison message
    /// blocks, $4 its pause, $5 how long dead rows are kept, or null, $6 the lease's length as text, for the error, $7 most leases
    /// to end. One row: has work, returned, buried, time to the next delayed message.
    /// </summary>
    /// <remarks>
    /// A due message and those parked behind it become ready together, up to the next one that is not due, or a limit. Then the next one is made due soon, and continues. So each parked message has a delayed one of its
    /// key before it, and a key that fails again and again costs no more than that limit each time, however many messages are parked.
    /// </remarks>
    public string Upkeep { get; } = $"""
        with ended as materialized (
            select shard, worker, in_hand from {tables.Shards} where queue = $1 and until <= pg_catalog.now() and shard = any({Locked}) order by until limit $7
        ), freed as (
            update {tables.Shards} s set until = null, worker = null, in_hand = null, epoch = s.epoch + 1 from ended where s.queue = $1 and s.shard = ended.shard
        ), struck as materialized (
            select m.ctid, m.attempts + 1 >= $2 as is_last, 'The claim of ' || ended.worker || ' ended: it was not settled, nor renewed, within ' || $6 || '.' as reason
            from ended cross join lateral pg_catalog.unnest(ended.in_hand) as held(id)
            join {tables.Messages} m on m.queue = $1 and m.shard = ended.shard and m.id = held.id and m.due_at is null
        ), returned as (
            update {tables.Messages} m
            set attempts = least(m.attempts + 1, {short.MaxValue}), due_at = case when struck.is_last then pg_catalog.now() + $4 end, error = struck.reason
            from struck where m.ctid = struck.ctid and ($3 or not struck.is_last)
            returning m.id
        ), gone as (
            delete from {tables.Messages} m using struck where m.ctid = struck.ctid and struck.is_last and not $3
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
        ), due as materialized (
            {Due(tables)} and shard = any({Locked}) order by due_at limit {MaxDue}
        ), keys as materialized (
            select shard, hash, {MaxDue} / pg_catalog.count(*) over () as most from due group by shard, hash
        ), run as materialized (
            select keys.most, waiting.* from keys cross join lateral (
                select w.ctid, w.id, pg_catalog.row_number() over (order by w.id) as place, pg_catalog.bool_and(w.due_at <= pg_catalog.now() or w.due_at = 'infinity') over (order by w.id) as is_open
                from (
                    select b.ctid, b.id, b.due_at from {tables.Messages} b
                    where b.queue = $1 and b.shard = keys.shard and b.due_at is not null and {SecondVersion.KeyHash("b")} = keys.hash order by b.id limit keys.most + 1
                ) w
            ) waiting where waiting.is_open
        ), ready as (
            update {tables.Messages} m set due_at = case when run.place > run.most then pg_catalog.now() + {Pause} end from run where m.ctid = run.ctid
        ), parked as (
            update {tables.Messages} m set due_at = 'infinity' from due where m.ctid = due.ctid and due.id not in (select id from run)
        )
        select exists (select from ended) or exists (select from run) or exists (
                   select from {tables.Shards} s
                   cross join lateral {FirstReady(tables, "s.shard")} ready
                   where s.queue = $1 and s.until is null),
               (select pg_catalog.count(*) from returned),
               (select pg_catalog.count(*) from gone),
               least(
                   case when (select pg_catalog.count(*) from due) < (select pg_catalog.count(*) from ({Due(tables)} limit {MaxDue + 1}) all_due) then interval '0' end,
                   case when exists (select from run where place > most) then {Pause} end,
                   (select m.due_at from {tables.Messages} m where m.queue = $1 and m.shard is not null and m.due_at < 'infinity' and m.due_at > pg_catalog.now() order by m.due_at limit 1) - pg_catalog.now(),
                   (select pg_catalog.min(s.until) from {tables.Shards} s where s.queue = $1 and s.until > pg_catalog.now()) - pg_catalog.now())
        """;

    // When the server's clock was set back, a turn began in the future: it is over, and did not begin last. Transactions that overlap may see each other's turns begin slightly later.
    private static string Lasts(string turn, string length) => $"({turn} > pg_catalog.now() - {length} and {turn} <= pg_catalog.now() + {length})";

    private static string Due(Tables tables) => $"""
        select messages.ctid, messages.id, messages.shard, {SecondVersion.KeyHash("messages")} as hash from {tables.Messages} as messages
        where queue = $1 and shard is not null and due_at < 'infinity' and due_at <= pg_catalog.now()
        """;

    private static string FirstReady(Tables tables, string shard) => $"""
        (select from {tables.Messages} m where m.queue = $1 and m.shard = {shard} and m.due_at is null order by m.id limit 1)
        """;
}
