using System.Buffers.Binary;
using System.Security.Cryptography;
using System.Text;
using Npgsql;

namespace BatchKit.Postgres.Schema;

/// <summary>Ensures once that the schema exists before it is used. After a failed attempt, the next caller tries again. Thread-safe.</summary>
internal sealed class SchemaGate(NpgsqlDataSource dataSource, string schema, bool mayCreate)
{
    private readonly SchemaMigration _migration = new(new Tables(schema), SchemaSteps.Published);
    private volatile bool _isOpen;

    public ValueTask PassAsync(CancellationToken cancellationToken) => _isOpen ? ValueTask.CompletedTask : PassSlowAsync(cancellationToken);

    /// <summary>Lets the next caller check again, because the tables are gone.</summary>
    public void Close() => _isOpen = false;

    // Concurrent callers all check. The lock in the database lets one create the tables; the others then find them.
    private async ValueTask PassSlowAsync(CancellationToken cancellationToken)
    {
        _isOpen = await Detached.UseAsync(dataSource, async (connection, token) =>
        {
            await SessionCheck.RunAsync(connection, token).ConfigureAwait(false);
            if (mayCreate)
                await _migration.RunAsync(connection, token).ConfigureAwait(false);
            else
                await _migration.CheckAsync(connection, token).ConfigureAwait(false);
            return true;
        }, cancellationToken).ConfigureAwait(false);
    }
}

/// <summary>Reads the version of a schema, and migrates it to this package's version, in one transaction under the schema's advisory lock.</summary>
internal sealed class SchemaMigration(Tables tables, SchemaSteps steps)
{
    // Workers of the earlier version keep working meanwhile. They lock the tables in another order than a step does, so the server may roll back the migration to end a deadlock.
    private const int MaxAttempts = 10;

    /// <summary>Creates or migrates the tables.</summary>
    /// <exception cref="InvalidOperationException">The schema has a later version, or the user lacks a right.</exception>
    public async Task RunAsync(NpgsqlConnection connection, CancellationToken cancellationToken)
    {
        try
        {
            // First without the lock: a user of an up-to-date schema needs no right to create, and its server may be read-only.
            for (var attempt = 1; await ReadVersionAsync(connection, cancellationToken).ConfigureAwait(false) != steps.Version; attempt++)
            {
                if (await TryMigrateAsync(connection, isLast: attempt == MaxAttempts, cancellationToken).ConfigureAwait(false))
                    return;
            }
        }
        catch (PostgresException exception) when (exception.SqlState == PostgresErrorCodes.InsufficientPrivilege)
        {
            throw new InvalidOperationException(
                $"The database's user may not create or read the schema {tables.Quoted} ({exception.MessageText}). Grant that, or run what {nameof(PostgresSchema)}.{nameof(PostgresSchema.GetScript)} "
                + $"gives as a user who may, and set {nameof(PostgresOptions.CreateSchema)} to false.", exception);
        }
    }

    /// <summary>Checks that the schema has this package's version, and changes nothing.</summary>
    /// <exception cref="InvalidOperationException">It has another version.</exception>
    public async Task CheckAsync(NpgsqlConnection connection, CancellationToken cancellationToken)
    {
        var version = await ReadVersionAsync(connection, cancellationToken).ConfigureAwait(false);
        if (version == steps.Version)
            return;
        var found = version == 0 ? "does not have this package's tables" : $"has version {version} of the tables, and this package needs version {steps.Version}";
        throw new InvalidOperationException(
            $"The schema {tables.Quoted} {found}. Run what {nameof(PostgresSchema)}.{nameof(PostgresSchema.GetScript)} gives, or set {nameof(PostgresOptions.CreateSchema)} to true.");
    }

    /// <returns>False when the server rolled the migration back to end a deadlock.</returns>
    private async Task<bool> TryMigrateAsync(NpgsqlConnection connection, bool isLast, CancellationToken cancellationToken)
    {
        try
        {
            var transaction = await connection.BeginTransactionAsync(cancellationToken).ConfigureAwait(false);
            await using (transaction.ConfigureAwait(false))
            {
                await LockAsync(connection, cancellationToken).ConfigureAwait(false);
                var version = await ReadVersionAsync(connection, cancellationToken).ConfigureAwait(false);
                if (version < steps.Version)
                    await MigrateAsync(connection, version, cancellationToken).ConfigureAwait(false);
                await transaction.CommitAsync(cancellationToken).ConfigureAwait(false);
            }

            return true;
        }
        catch (PostgresException exception) when (exception.SqlState == PostgresErrorCodes.DeadlockDetected && !isLast)
        {
            return false;
        }
    }

    private async Task<int> ReadVersionAsync(NpgsqlConnection connection, CancellationToken cancellationToken)
    {
        if (!await ExistsAsync(connection, "version", cancellationToken).ConfigureAwait(false))
            return 0;
        var command = new NpgsqlCommand($"select number from {tables.Version}", connection);
        await using (command.ConfigureAwait(false))
        {
            var version = await command.ExecuteScalarAsync(cancellationToken).ConfigureAwait(false) is int number ? number : 0;
            return version <= steps.Version
                ? version
                : throw new InvalidOperationException(
                    $"The schema {tables.Quoted} has version {version} of the tables, made by a later version of this package, which knows version {steps.Version}. Update the package.");
        }
    }

    private async Task MigrateAsync(NpgsqlConnection connection, int version, CancellationToken cancellationToken)
    {
        // "if not exists" requires the right to create schemas even when the schema exists.
        var create = await ExistsAsync(connection, table: null, cancellationToken).ConfigureAwait(false) ? string.Empty : $"create schema {tables.Quoted};\n";
        var command = new NpgsqlCommand(create + steps.After(version, tables), connection);
        await using (command.ConfigureAwait(false))
            await command.ExecuteNonQueryAsync(cancellationToken).ConfigureAwait(false);
    }

    private async Task<bool> ExistsAsync(NpgsqlConnection connection, string? table, CancellationToken cancellationToken)
    {
        const string Statement =
            """
            select pg_catalog.count(*) from pg_catalog.pg_namespace as n left join pg_catalog.pg_class as c on c.relnamespace = n.oid and c.relname = $2
            where n.nspname = $1 and ($2 is null or c.oid is not null)
            """;
        var command = new NpgsqlCommand(Statement, connection);
        await using (command.ConfigureAwait(false))
        {
            command.Parameters.Add(new NpgsqlParameter<string> { TypedValue = tables.Schema });
            command.Parameters.Add(new NpgsqlParameter<string?> { TypedValue = table, NpgsqlDbType = NpgsqlTypes.NpgsqlDbType.Text });
            return await command.ExecuteScalarAsync(cancellationToken).ConfigureAwait(false) is > 0L;
        }
    }

    private async Task LockAsync(NpgsqlConnection connection, CancellationToken cancellationToken)
    {
        var hash = SHA256.HashData(Encoding.UTF8.GetBytes($"batchkit schema {tables.Schema}"));
        var command = new NpgsqlCommand("select pg_catalog.pg_advisory_xact_lock($1)", connection);
        await using (command.ConfigureAwait(false))
        {
            command.Parameters.Add(new NpgsqlParameter<long> { TypedValue = BinaryPrimitives.ReadInt64LittleEndian(hash) });
            await command.ExecuteNonQueryAsync(cancellationToken).ConfigureAwait(false);
        }
    }
}

/// <summary>The statements that create the tables, one step for each version. A published step never changes; a change of the tables is a new step.</summary>
internal sealed class SchemaSteps(params Func<Tables, string>[] steps)
{
    /// <summary>The steps of this package.</summary>
    public static SchemaSteps Published { get; } = new(FirstVersion.Script);

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
