namespace BatchKit.Postgres.Schema;

/// <summary>The statements that make the tables: one step a version. A step that was published never changes; a change is a further step.</summary>
internal sealed class SchemaSteps(params Func<Tables, string>[] steps)
{
    /// <summary>The steps of this package.</summary>
    public static SchemaSteps Published { get; } = new(FirstVersion.Script);

    /// <summary>The version that the last step leads to.</summary>
    public int Version => steps.Length;

    /// <summary>The steps behind a version, and the number that remembers them.</summary>
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
    // Rows here live for milliseconds. A share of the table as threshold would let dead ones pile up after each backlog; a fixed number keeps claims an index scan over few pages. Vacuuming without
    // pauses takes less than the scans over what it would leave (manual, section 20.10).
    private const string Vacuum =
        "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000, "
        + "autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000, autovacuum_vacuum_cost_delay = 0";

    private const string VacuumToast =
        "toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 5000, toast.autovacuum_vacuum_cost_delay = 0";

    // Few rows, updated all the time: half of each page stays free, so that an update touches no index (manual, section 73.7).
    private const string Updated = "fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0";

    public static string Script(Tables tables) => string.Join('\n', Named(tables), Waiting(tables), Held(tables), Given(tables));

    private static string Named(Tables tables) =>
        $"""
        create table {tables.Version} (number int not null);

        create table {tables.Queues} (
            id int generated always as identity primary key,
            name text not null unique,
            shards smallint not null default 0,
            created_at timestamptz not null default now());

        create table {tables.Producers} (
            node int,
            epoch bigint,
            lane int,
            number bigint not null,
            seen_at timestamptz not null,
            primary key (node, epoch, lane)) with ({Updated});

        create table {tables.UniqueKeys} (
            queue int,
            key text,
            primary key (queue, key)) with ({Vacuum});

        """;

    // What waits. No primary key, which would be one more index a row; rank is the priority, negated, so that indexes ascend. Payloads are stored as they are: trying to compress them costs more than
    // it saves on what lives for milliseconds.
    private static string Waiting(Tables tables) =>
        $"""
        create table {tables.Messages} (
            id bigint generated always as identity,
            enqueued_at timestamptz not null default now(),
            due_at timestamptz,
            queue int not null,
            rank smallint not null default 0,
            attempts smallint not null default 0,
            shard smallint,
            key text,
            unique_key text,
            error text,
            header bytea,
            payload bytea not null) with ({Vacuum}, {VacuumToast});
        alter table {tables.Messages} alter column header set storage external, alter column payload set storage external;
        create index messages_ready on {tables.Messages} (queue, rank, id) where due_at is null and shard is null;
        create index messages_delayed on {tables.Messages} (queue, due_at) where due_at is not null and attempts = 0 and shard is null;
        create index messages_retry on {tables.Messages} (queue, due_at) where attempts > 0 and shard is null;
        create index messages_ordered on {tables.Messages} (queue, shard, id) where shard is not null;
        create index messages_waiting on {tables.Messages} (queue, shard, due_at) where shard is not null and due_at is not null;

        """;

    // What workers hold: a row a claim, whose arrays have an element a message, or are null when all elements are.
    private static string Held(Tables tables) =>
        $"""
        create table {tables.Claims} (
            token bigint primary key,
            queue int not null,
            until timestamptz not null,
            worker text not null,
            attempts smallint not null,
            ids bigint[] not null,
            ranks smallint[] not null,
            enqueued_at timestamptz[] not null,
            unique_keys text[],
            headers bytea[],
            payloads bytea[] not null) with ({Vacuum}, {VacuumToast});
        alter table {tables.Claims}
            alter column ids set storage external, alter column ranks set storage external, alter column enqueued_at set storage external,
            alter column unique_keys set storage external, alter column headers set storage external, alter column payloads set storage external;
        create index claims_until on {tables.Claims} (queue, until);

        create table {tables.Shards} (
            queue int,
            shard smallint,
            epoch bigint not null default 0,
            until timestamptz,
            worker text,
            in_hand bigint[],
            served_at timestamptz,
            primary key (queue, shard)) with ({Updated});

        """;

    private static string Given(Tables tables) =>
        $"""
        create table {tables.Dead} (
            id bigint primary key,
            queue int not null,
            died_at timestamptz not null default now(),
            enqueued_at timestamptz not null,
            rank smallint not null,
            attempts smallint not null,
            shard smallint,
            key text,
            unique_key text,
            error text not null,
            header bytea,
            payload bytea not null);
        alter table {tables.Dead} alter column header set storage external, alter column payload set storage external;
        create index dead_queue on {tables.Dead} (queue, died_at);

        """;
}
