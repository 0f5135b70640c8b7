namespace BatchKit.Postgres.Schema;

/// <summary>The statements that create the tables, one step for each version. A published step never changes; a change of the tables is a new step.</summary>
internal sealed class SchemaSteps(params Func<Tables, string>[] steps)
{
    /// <summary>The steps of this package.</summary>
    public static SchemaSteps Published { get; } = new(FirstVersion.Script, SecondVersion.Script, ThirdVersion.Script, FourthVersion.Script);

    /// <summary>The version after the last step.</summary>
    public int Version => steps.Length;

    /// <summary>Returns the steps after a version, and the statements that store the new version.</summary>
    public string After(int version, Tables tables) =>
        $"""
        {string.Join('\n', steps[version..].Select(step => step(tables)))}
        delete from {tables.Version};
        insert into {tables.Version} (number) values ({Version});

        """;
}

/// <summary>Version 1 of the tables.</summary>
internal static class FirstVersion
{
    // Rows exist for milliseconds. With a threshold relative to the table's size, dead rows would pile up after each backlog; with a fixed threshold a claim stays an index scan over few pages. Vacuuming
    // without pauses costs less than scanning the rows that it would leave (manual, section 20.10).
    private const string Vacuum =
        "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000, "
        + "autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000, autovacuum_vacuum_cost_delay = 0";

    private const string VacuumToast =
        "toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 5000, toast.autovacuum_vacuum_cost_delay = 0";

    // Few rows with frequent updates: half of each page stays free, so that an update changes no index (manual, section 73.7).
    private const string Updated = "fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0";

    public static string Script(Tables tables) => string.Join('\n', Names(tables), Waiting(tables), Held(tables), Dead(tables));

    private static string Names(Tables tables) =>
        $"""
        create table {tables.Version} (number int not null);

        create table {tables.Queues} (
            id int generated always as identity primary key,
            name pg_catalog.text not null unique,
            shards smallint not null default 0,
            created_at pg_catalog.timestamptz not null default pg_catalog.now());

        create table {tables.Producers} (
            node int,
            epoch bigint,
            lane int,
            number bigint not null,
            seen_at pg_catalog.timestamptz not null,
            primary key (node, epoch, lane)) with ({Updated});

        create table {tables.UniqueKeys} (
            queue int,
            key pg_catalog.text,
            primary key (queue, key)) with ({Vacuum});

        """;

    // Waiting messages. They have no primary key, which would be one more index. Rank is the negated priority, so that indexes ascend. Payloads are not compressed, because compression would cost more than it
    // saves for rows that exist for milliseconds.
    private static string Waiting(Tables tables) =>
        $"""
        create table {tables.Messages} (
            id bigint generated always as identity,
            enqueued_at pg_catalog.timestamptz not null default pg_catalog.now(),
            due_at pg_catalog.timestamptz,
            queue int not null,
            rank smallint not null default 0,
            attempts smallint not null default 0,
            shard smallint,
            key pg_catalog.text,
            unique_key pg_catalog.text,
            error pg_catalog.text,
            header pg_catalog.bytea,
            payload pg_catalog.bytea not null) with ({Vacuum}, {VacuumToast});
        alter table {tables.Messages} alter column header set storage external, alter column payload set storage external;
        create index messages_ready on {tables.Messages} (queue, rank, id) where due_at is null and shard is null;
        create index messages_delayed on {tables.Messages} (queue, due_at) where due_at is not null and attempts = 0 and shard is null;
        create index messages_retry on {tables.Messages} (queue, due_at) where attempts > 0 and shard is null;
        create index messages_ordered on {tables.Messages} (queue, shard, id) where shard is not null;
        create index messages_waiting on {tables.Messages} (queue, shard, due_at) where shard is not null and due_at is not null;

        """;

    // The claims of workers, one row for each. Its arrays have an element for each message, or are null when all elements would be.
    private static string Held(Tables tables) =>
        $"""
        create table {tables.Claims} (
            token bigint primary key,
            queue int not null,
            until pg_catalog.timestamptz not null,
            worker pg_catalog.text not null,
            attempts smallint not null,
            ids bigint[] not null,
            ranks smallint[] not null,
            enqueued_at pg_catalog.timestamptz[] not null,
            unique_keys pg_catalog.text[],
            headers pg_catalog.bytea[],
            payloads pg_catalog.bytea[] not null) with ({Vacuum}, {VacuumToast});
        alter table {tables.Claims}
            alter column ids set storage external, alter column ranks set storage external, alter column enqueued_at set storage external,
            alter column unique_keys set storage external, alter column headers set storage external, alter column payloads set storage external;
        create index claims_until on {tables.Claims} (queue, until);

        create table {tables.Shards} (
            queue int,
            shard smallint,
            epoch bigint not null default 0,
            until pg_catalog.timestamptz,
            worker pg_catalog.text,
            in_hand bigint[],
            served_at pg_catalog.timestamptz,
            primary key (queue, shard)) with ({Updated});

        """;

    private static string Dead(Tables tables) =>
        $"""
        create table {tables.Dead} (
            id bigint primary key,
            queue int not null,
            died_at pg_catalog.timestamptz not null default pg_catalog.now(),
            enqueued_at pg_catalog.timestamptz not null,
            rank smallint not null,
            attempts smallint not null,
            shard smallint,
            key pg_catalog.text,
            unique_key pg_catalog.text,
            error pg_catalog.text not null,
            header pg_catalog.bytea,
            payload pg_catalog.bytea not null);
        alter table {tables.Dead} alter column header set storage external, alter column payload set storage external;
        create index dead_queue on {tables.Dead} (queue, died_at);

        """;
}

/// <summary>
/// Version 2 of the tables. Ordered receivers of version 1 stop at it, with an error that names both versions, because they would complete delayed messages without making those ready that are parked behind them.
/// </summary>
internal static class SecondVersion
{
    public static string Script(Tables tables) => string.Join('\n', Leases(tables), Waiting(tables), Numbers(tables));

    /// <summary>Returns the number by which a key is looked up. Messages without a key have that of an empty one.</summary>
    public static string KeyHash(string table) => $"pg_catalog.hashtextextended(coalesce({table}.key, ''), 0)";

    // An exchange that is repeated because its answer was lost finds by its token the lease that it took.
    private static string Leases(Tables tables) =>
        $"""
        alter table {tables.Shards} rename column served_at to turn_at;
        alter table {tables.Shards} add column token bigint;

        """;

    // While an old snapshot lasts, all versions of a producer's row stay. In an index by number the last one is found first, at the end.
    private static string Numbers(Tables tables) =>
        $"""
        alter table {tables.Producers} drop constraint producers_pkey;
        create unique index producers_number on {tables.Producers} (node, epoch, lane, number);

        """;

    // A message of an ordered queue is ready (without due_at), delayed, or parked behind a delayed one of its key (due_at is infinity). Each kind has an index of its own, so that those that wait cost
    // those that are ready nothing. Keys have up to 64 KiB, and an index has their hash.
    private static string Waiting(Tables tables) =>
        $"""
        drop index {tables.Quoted}.messages_ordered, {tables.Quoted}.messages_waiting;
        create index messages_ordered on {tables.Messages} (queue, shard, id) where shard is not null and due_at is null;
        create index messages_blocking on {tables.Messages} (queue, shard, {KeyHash("messages")}, id) where shard is not null and due_at is not null;
        create index messages_due on {tables.Messages} (queue, due_at) where shard is not null and due_at < 'infinity';

        """;
}

/// <summary>
/// Version 3 of the tables: a waiting message is found by its uniqueness key, and may free the key when it is claimed. Processes of version 2 go on, and free each key when its message is settled.
/// </summary>
internal static class ThirdVersion
{
    public static string Script(Tables tables) =>
        $"""
        alter table {tables.Messages} add column frees_at_claim boolean;
        create index messages_unique on {tables.Messages} (queue, unique_key) where unique_key is not null;

        """;
}

/// <summary>
/// Version 4 of the tables: a publication for all tables, which is what change data capture makes by default, stops nothing. Without a replica identity the server refuses to update and delete rows of published tables.
/// </summary>
/// <remarks>It changes only the catalog, and processes of version 3 go on. With <c>wal_level = logical</c>, a claim writes the rows that it moves to the log once more, published or not; below that, nothing.</remarks>
internal static class FourthVersion
{
    public static string Script(Tables tables) =>
        $"""
        alter table {tables.Producers} replica identity using index producers_number;
        alter table {tables.Messages} replica identity full;
        alter table {tables.Version} replica identity full;

        """;
}
