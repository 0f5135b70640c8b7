using BatchKit.Postgres.Schema;

namespace BatchKit.Postgres.Receiving;

/// <summary>The statements for claims of queues without order. A claim moves rows: it deletes them from <c>messages</c>, and stores them as arrays in one row of <c>claims</c> until they are settled.</summary>
internal sealed class ClaimStatements
{
    /// <summary>
    /// The planner's settings for the transaction. Without them, a plan that was cached while the table was empty might always scan the whole table. Without <c>jit</c> off, the server would compile each claim
    /// from a table of millions of rows, because it takes the limit, a parameter, for a tenth of them: 2 s for a claim of 10 ms. They are set in each transaction, so that a pooler passes no settings on to other
    /// users of the session.
    /// </summary>
    public const string Plan =
        "select pg_catalog.set_config('enable_seqscan', 'off', true), pg_catalog.set_config('enable_bitmapscan', 'off', true), pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', true), pg_catalog.set_config('jit', 'off', true)";

    /// <summary>
    /// The same, for a transaction that settles nothing and does not wait for the disk. If the server crashes before it has written the claim, the messages are unclaimed again, and the worker's settlement is
    /// refused.
    /// </summary>
    public const string PlanUnflushed = Plan + ", pg_catalog.set_config('synchronous_commit', 'off', true)";

    // More than one exchange can take, and few among all tokens.
    private const int MaxClaims = 100_000;

    private const string NewClaim = "(token, queue, until, worker, attempts, ids, ranks, enqueued_at, unique_keys, headers, payloads)";

    // An array whose elements are all null is stored as null.
    private const string Arrays = """
        pg_catalog.min(attempts), pg_catalog.array_agg(id), pg_catalog.array_agg(rank), pg_catalog.array_agg(enqueued_at), case when pg_catalog.count(unique_key) > 0 then pg_catalog.array_agg(unique_key) end,
            case when pg_catalog.count(header) > 0 then pg_catalog.array_agg(header) end, pg_catalog.array_agg(payload)
        """;

    // A key that is freed now is not stored with the claim: another message may have it when the claim is settled.
    private const string KeptKey = "case when m.frees_at_claim then null else m.unique_key end as unique_key, case when m.frees_at_claim then m.unique_key end as freed_key";

    private const string Returned = "returning token, attempts, ids, ranks, enqueued_at, headers, payloads, (select pg_catalog.count(*) from fresh)";

    private readonly Tables _tables;

    public ClaimStatements(Tables tables, int batchSize)
    {
        _tables = tables;
        Claim = Take(batchSize);
        ClaimFresh = TakeOne($"{Fresh($"{batchSize}")}, {Retry("failed", "case when exists (select from fresh) then 0 else 1 end")}");
        ClaimRetry = TakeOne($"{Retry("failed", "1")}, {Fresh($"case when exists (select from failed) then 0 else {batchSize} end")}");
        Done = $"""
            with gone as (
                delete from {tables.Claims} where token = any($1) returning token, queue, unique_keys
            ), freed as (
                delete from {tables.UniqueKeys} as u using gone, pg_catalog.unnest(gone.unique_keys) as k(key) where u.queue = gone.queue and u.key = k.key
            )
            select token from gone
            """;
        Mixed = Settle("$1", "");
        // A transaction that is still open keeps its lock, and no one waits for it.
        // After a fail-over to a standby that lagged, its number may be one that the server has not given yet, for which pg_xact_status fails. A snapshot is no measure: numbers above its own may be committed meanwhile.
        Left = Settle(
            $"(select token from {tables.Claims} where token = $1 for update skip locked)",
            ", case when $6 < pg_catalog.pg_current_xact_id() then pg_catalog.pg_xact_status($6) end");
        Unsettled = $"""
            select exists (select from {tables.Claims} as c cross join lateral pg_catalog.unnest(c.ids) as held (id) where c.queue = $1 and held.id = any($2))
                or exists (select from {tables.Messages} where queue = $1 and rank = any($3) and id = any($2) and due_at is null and shard is null)
                or exists (select from {tables.Messages} where queue = $1 and attempts > 0 and shard is null and attempts = $4 and id = any($2))
            """;
        Adopt = $"""
            update {tables.Claims} set until = pg_catalog.now() + $2 where token >= $1 and token < $1 + {MaxClaims}
            returning token, attempts, ids, ranks, enqueued_at, headers, payloads, 0::bigint
            """;
        // A row that a handler's transaction has settled is locked until that ends. It is not waited for, and no one else takes it.
        Renew = $"""
            with own as materialized (
                select token from {tables.Claims} where token = any($1) for no key update skip locked
            ), renewed as (
                update {tables.Claims} set until = pg_catalog.now() + $2 where token in (select token from own)
            )
            select token from {tables.Claims} where token = any($1)
            """;
    }

    /// <summary>
    /// Claims for several workers. Parameters: queue, time limit, worker, most bytes, lowest rank, lowest id, the first of consecutive tokens, most claims, how many of them may be retries before fresh messages.
    /// </summary>
    public string Claim { get; }

    /// <summary>
    /// One claim, of fresh messages if there are any. It shares nothing out: 0.43 ms instead of 0.51 on an idle server. Parameters: as of <see cref="Claim"/>, without the last two.
    /// </summary>
    public string ClaimFresh { get; }

    /// <summary>As <see cref="ClaimFresh"/>, of a retry if there is one.</summary>
    public string ClaimRetry { get; }

    /// <summary>Parameter: tokens.</summary>
    public string Done { get; }

    /// <summary>Parameters: token, ids, outcomes, errors, delays.</summary>
    public string Mixed { get; }

    /// <summary>Settles a claim whose handler has settled it in a transaction of its own, if that has changed nothing, and returns the state of the transaction. Parameters: as of <see cref="Mixed"/>, and the transaction.</summary>
    public string Left { get; }

    /// <summary>Renews and returns the claims of an exchange whose answer was lost. Parameters: the first of their consecutive tokens, time limit.</summary>
    public string Adopt { get; }

    /// <summary>Returns whether messages of a claim that is gone are still as they were claimed, waiting or in another claim. Parameters: queue, ids, ranks, attempts.</summary>
    public string Unsettled { get; }

    /// <summary>Parameters: tokens, time limit.</summary>
    public string Renew { get; }

    // MATERIALIZED: inlined into a join, the sub-select may run again with other rows locked, and so exceed the LIMIT.
    private string Retry(string name, string limit) => $"""
        {name} as materialized (
            select ctid, id, due_at, {Tables.MessageSize} as size from {_tables.Messages} where queue = $1 and attempts > 0 and shard is null and due_at <= pg_catalog.now()
            order by due_at limit ({limit}) for update skip locked
        )
        """;

    private string Fresh(string limit) => $"""
        fresh as materialized (
            select ctid, rank, id, {Tables.MessageSize} as size from {_tables.Messages}
            where queue = $1 and due_at is null and shard is null and (rank, id) >= ($5, $6)
            order by rank, id limit ({limit}) for update skip locked
        )
        """;

    private string TakeOne(string picks) => $"""
        with {picks}, picked as (
            select ctid from failed
            union all
            select ctid from (select ctid, size, pg_catalog.sum(size) over (order by rank, id rows unbounded preceding) as upto from fresh) as measured where upto <= $4 or upto = size
        ), {Taken("")}
        insert into {_tables.Claims} {NewClaim}
        select $7, $1, pg_catalog.now() + $2, $3, {Arrays}
        from taken having pg_catalog.count(*) > 0
        {Returned}
        """;

    // All fresh messages together have no more bytes than allowed, and all failed ones, because the server moves them in one statement, which has a time limit. The first of each may have more.
    private string Take(int batchSize) => $"""
        with {Retry("retry", "$9")}, {Fresh($"($8 - (select pg_catalog.count(*) from retry)) * {batchSize}")}, {Retry("late", "case when exists (select from retry) or exists (select from fresh) then 0 else $8 end")}, picked as (
            select ctid, id as lone, 0 as turn from (
                select ctid, id, size, pg_catalog.sum(size) over (order by due_at, id rows unbounded preceding) as upto from (select * from retry union all select * from late) as failed
            ) as measured where upto <= $4 or upto = size
            union all
            select ctid, null, turn from (
                select ctid, size, (pg_catalog.row_number() over so_far - 1) / {batchSize} as turn, pg_catalog.sum(size) over so_far as upto
                from fresh window so_far as (order by rank, id rows unbounded preceding)
            ) as measured where upto <= $4 or upto = size
        ), {Taken(", picked.lone, picked.turn")}
        insert into {_tables.Claims} {NewClaim}
        select $7 + pg_catalog.row_number() over () - 1, $1, pg_catalog.now() + $2, $3, {Arrays}
        from taken group by lone, turn
        {Returned}
        """;

    private string Taken(string alsoReturned) => $"""
        taken as (
            delete from {_tables.Messages} as m using picked where m.ctid = picked.ctid
            returning m.id, m.rank, m.enqueued_at, m.attempts, m.header, m.payload, {KeptKey}{alsoReturned}
        ), freed as (
            delete from {_tables.UniqueKeys} as u using taken where taken.freed_key is not null and u.queue = $1 and u.key = taken.freed_key
        )
        """;

    // A message that has failed before always has a due time, even when it was given back, so that it is claimed in a batch of its own.
    private string Settle(string token, string alsoReturned) => $"""
        with gone as (
            delete from {_tables.Claims} where token = {token} returning queue, attempts, ids, ranks, enqueued_at, unique_keys, headers, payloads
        ), evaluated as materialized (
            select gone.queue, gone.attempts, m.*, o.outcome, o.error, o.delay
            from gone, {Rows.Of("gone.ids", "gone.ranks", "gone.enqueued_at", "gone.unique_keys", "gone.headers", "gone.payloads")} as m(id, rank, enqueued_at, unique_key, header, payload)
            join {Rows.Of("$2", "$3", "$4", "$5")} as o(id, outcome, error, delay) on o.id = m.id
        ), back as (
            insert into {_tables.Messages} (id, enqueued_at, due_at, queue, rank, attempts, unique_key, error, header, payload) overriding system value
            select id, enqueued_at, case when outcome = {(int)MessageOutcome.Retry} or delay > interval '0' then pg_catalog.now() + delay when attempts > 0 then pg_catalog.now() end, queue, rank,
                attempts + case when outcome = {(int)MessageOutcome.Retry} then 1 else 0 end, unique_key, error, header, payload
            from evaluated where outcome in ({(int)MessageOutcome.Retry}, {(int)MessageOutcome.Released})
        ), buried as (
            insert into {_tables.Dead} (id, queue, enqueued_at, rank, attempts, unique_key, error, header, payload)
            select id, queue, enqueued_at, rank, attempts + 1, unique_key, error, header, payload from evaluated where outcome = {(int)MessageOutcome.Dead}
        ), freed as (
            delete from {_tables.UniqueKeys} as u using evaluated where evaluated.outcome in ({(int)MessageOutcome.Done}, {(int)MessageOutcome.Dead})
                and u.queue = evaluated.queue and u.key = evaluated.unique_key
        )
        select pg_catalog.count(*){alsoReturned} from gone
        """;
}

/// <summary>The single statement of upkeep for queues without order.</summary>
internal static class UpkeepStatement
{
    // The limit of one statement; the next one continues.
    private const int MaxRows = 10_000;

    /// <summary>Parameters: queue, most attempts, retention (null keeps all), claim's time limit in human-readable form, queue's name and number of shards, most claims, most bytes of them; the first one may have more.</summary>
    public static string Of(Tables tables) => $"""
        with expired as materialized (
            select token, pg_catalog.row_number() over so_far as place, pg_catalog.sum(size) over so_far as bytes from (
                select token, until, pg_catalog.pg_column_size(payloads) + coalesce(pg_catalog.pg_column_size(headers), 0) as size from {tables.Claims}
                where queue = $1 and until <= pg_catalog.now() order by until limit $7 for update skip locked) as locked
            window so_far as (order by until, token)
        ), ended as (
            delete from {tables.Claims} where token in (select token from expired where place = 1 or bytes <= $8)
            returning worker, attempts, ids, ranks, enqueued_at, unique_keys, headers, payloads
        ), evaluated as materialized (
            select ended.attempts, m.*, 'The claim of ' || ended.worker || ' ended: it was not settled, nor renewed, within ' || $4 || '.' as error
            from ended, {Rows.Of("ended.ids", "ended.ranks", "ended.enqueued_at", "ended.unique_keys", "ended.headers", "ended.payloads")} as m(id, rank, enqueued_at, unique_key, header, payload)
        ), back as (
            insert into {tables.Messages} (id, enqueued_at, due_at, queue, rank, attempts, unique_key, error, header, payload) overriding system value
            select id, enqueued_at, pg_catalog.now(), $1, rank, attempts + 1, unique_key, error, header, payload from evaluated where attempts + 1 < $2
            returning 1
        ), buried as (
            insert into {tables.Dead} (id, queue, enqueued_at, rank, attempts, unique_key, error, header, payload)
            select id, $1, enqueued_at, rank, attempts + 1, unique_key, error, header, payload from evaluated where attempts + 1 >= $2
            returning unique_key
        ), freed as (
            delete from {tables.UniqueKeys} as u using buried where u.queue = $1 and u.key = buried.unique_key
        ), due as (
            update {tables.Messages} set due_at = null where ctid = any(array(
                select ctid from {tables.Messages} where queue = $1 and due_at <= pg_catalog.now() and due_at is not null and attempts = 0 and shard is null
                order by due_at limit {MaxRows} for update skip locked))
            returning 1
        ), forgotten as (
            delete from {tables.Dead} where ctid = any(array(
                select ctid from {tables.Dead} where queue = $1 and died_at < pg_catalog.now() - $3::interval order by died_at limit {MaxRows} for update skip locked))
        ), counted as (
            select (select pg_catalog.count(*) from back)::int as returned, (select pg_catalog.count(*) from buried)::int as buried, (select pg_catalog.count(*) from due)::int as due
        )
        select returned > 0 or due > 0 or ready.id is not null
                or exists (select from {tables.Messages} where queue = $1 and attempts > 0 and shard is null and due_at <= pg_catalog.now()),
            returned, buried,
            least(
                (select due_at from {tables.Messages} where queue = $1 and due_at > pg_catalog.now() and attempts = 0 and shard is null order by due_at limit 1),
                (select due_at from {tables.Messages} where queue = $1 and due_at > pg_catalog.now() and attempts > 0 and shard is null order by due_at limit 1),
                (select until from {tables.Claims} where queue = $1 and until > pg_catalog.now() order by until limit 1)) - pg_catalog.now(),
            ready.rank, ready.id
        from counted left join (
            select rank, id from {tables.Messages} where queue = $1 and due_at is null and shard is null order by rank, id limit 1) as ready on true
        where {QueueGuard.One(tables, "$1", "$5", "$6")} = 1
        """;
}
