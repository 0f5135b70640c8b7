using System.Buffers.Binary;
using System.Security.Cryptography;
using System.Text;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Schema;

/// <summary>Ensures once that the schema exists before it is used. After a failed attempt, the next caller tries again. Thread-safe.</summary>
/// <remarks>A migration goes on when its callers give up, and the next callers wait for it: one that takes longer than a send may wait would be begun again and again otherwise.</remarks>
internal sealed class SchemaGate(NpgsqlDataSource dataSource, string schema, bool mayCreate) : IAsyncDisposable
{
    private readonly SchemaMigration _migration = new(new Tables(schema), SchemaSteps.Published);
    private readonly CancellationTokenSource _ending = new();

    // Guards the task of the migration.
    private readonly Lock _lock = new();
    private volatile Task _migrating = Task.CompletedTask;
    private volatile bool _isOpen;

    /// <summary>True while the schema is created or migrated.</summary>
    public bool IsMigrating => !_migrating.IsCompleted;

    /// <summary>Completes when the schema can be used. The token ends the wait, not a migration.</summary>
    public ValueTask PassAsync(CancellationToken cancellationToken) => _isOpen ? ValueTask.CompletedTask : PassSlowAsync(cancellationToken);

    /// <summary>Lets the next caller check again, because the tables are gone.</summary>
    public void Close() => _isOpen = false;

    /// <summary>Cancels a migration that is under way; nothing is changed then.</summary>
    public async ValueTask DisposeAsync()
    {
        await _ending.CancelAsync().ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        await _migrating.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        _ending.Dispose();
    }

    private async ValueTask PassSlowAsync(CancellationToken cancellationToken)
    {
        if (!await Detached.UseAsync(dataSource, IsCurrentAsync, cancellationToken).ConfigureAwait(false))
            await JoinMigration().WaitAsync(cancellationToken).ConfigureAwait(false);
        _isOpen = true;
    }

    private async Task<bool> IsCurrentAsync(NpgsqlConnection connection, CancellationToken cancellationToken)
    {
        await SessionCheck.RunAsync(connection, cancellationToken).ConfigureAwait(false);
        if (mayCreate)
            return await _migration.IsCurrentAsync(connection, cancellationToken).ConfigureAwait(false);
        await _migration.CheckAsync(connection, cancellationToken).ConfigureAwait(false);
        return true;
    }

    // The lock in the database lets one process create the tables; the others then find them.
    private Task JoinMigration()
    {
        lock (_lock)
        {
            if (!IsMigrating)
            {
                _migrating = CallerContext.RunWithout(MigrateAsync);
                _ = ObserveAsync(_migrating);
            }

            return _migrating;
        }
    }

    private Task MigrateAsync() => Detached.UseAsync(dataSource, async (connection, token) =>
    {
        await _migration.RunAsync(connection, token).ConfigureAwait(false);
        return true;
    }, _ending.Token);

    // Callers that wait get its exception; perhaps none waits any more.
    private static async Task ObserveAsync(Task migrating) => await migrating.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
}

/// <summary>Reads the version of a schema, and migrates it to this package's version, in one transaction under the schema's advisory lock.</summary>
internal sealed class SchemaMigration(Tables tables, SchemaSteps steps)
{
    // Workers of the earlier version keep working meanwhile. They lock the tables in another order than a step does, so the server may roll back the migration to end a deadlock.
    private const int MaxAttempts = 7;

    // While a step waits for a table, all others wait behind it. So it does not wait for a long transaction, such as a backup: it lets them pass for as long, and tries again.
    // Each attempt may wait longer, because on a busy server the first ones may be too short to get behind the work under way.
    private static readonly TimeSpan FirstLockTime = TimeSpan.FromMilliseconds(250);

    /// <summary>Returns whether the schema has this package's version.</summary>
    /// <exception cref="InvalidOperationException">It has a later version, or the user lacks a right.</exception>
    public async Task<bool> IsCurrentAsync(NpgsqlConnection connection, CancellationToken cancellationToken)
    {
        try
        {
            return await ReadVersionAsync(connection, cancellationToken).ConfigureAwait(false) == steps.Version;
        }
        catch (PostgresException exception) when (exception.SqlState == PostgresErrorCodes.InsufficientPrivilege)
        {
            throw NotAllowed(exception);
        }
    }

    /// <summary>Creates or migrates the tables.</summary>
    /// <exception cref="InvalidOperationException">The schema has a later version, or the user lacks a right.</exception>
    /// <exception cref="IOException">Another transaction kept the tables locked.</exception>
    public async Task RunAsync(NpgsqlConnection connection, CancellationToken cancellationToken)
    {
        try
        {
            // First without the lock: a user of an up-to-date schema needs no right to create, and its server may be read-only.
            for (var attempt = 1; await ReadVersionAsync(connection, cancellationToken).ConfigureAwait(false) != steps.Version; attempt++)
            {
                if (await TryMigrateAsync(connection, attempt, cancellationToken).ConfigureAwait(false))
                    return;
                await ExecuteAsync(connection, [ServerTimeLimit.Lift, $"select pg_catalog.pg_sleep({LockMilliseconds(attempt)} / 1000.0)"], cancellationToken).ConfigureAwait(false);
            }
        }
        catch (PostgresException exception) when (exception.SqlState == PostgresErrorCodes.LockNotAvailable)
        {
            throw Detached.InSync(new IOException(
                $"The tables of the schema {tables.Quoted} could not be migrated: another transaction, for example of a backup, keeps them locked. pg_locks shows which.", exception));
        }
        catch (PostgresException exception) when (exception.SqlState == PostgresErrorCodes.InsufficientPrivilege)
        {
            throw NotAllowed(exception);
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
        throw Detached.InSync(new InvalidOperationException(
            $"The schema {tables.Quoted} {found}. Run what {nameof(PostgresSchema)}.{nameof(PostgresSchema.GetScript)} gives, or set {nameof(PostgresOptions.CreateSchema)} to true."));
    }

    private Exception NotAllowed(PostgresException exception) => Detached.InSync(new InvalidOperationException(
        $"The database's user may not create or read the schema {tables.Quoted} ({exception.MessageText}). Grant that, or run what {nameof(PostgresSchema)}.{nameof(PostgresSchema.GetScript)} "
        + $"gives as a user who may, and set {nameof(PostgresOptions.CreateSchema)} to false.", exception));

    /// <returns>False when the server rolled the migration back, because of a deadlock or a lock that was not free in time.</returns>
    private async Task<bool> TryMigrateAsync(NpgsqlConnection connection, int attempt, CancellationToken cancellationToken)
    {
        try
        {
            var transaction = await connection.BeginTransactionAsync(cancellationToken).ConfigureAwait(false);
            await using (transaction.ConfigureAwait(false))
            {
                // A step that has its locks may build indexes of a large table, and a wait for another process is a wait for its steps.
                await ExecuteAsync(connection, [ServerTimeLimit.Lift], cancellationToken).ConfigureAwait(false);
                await LockAsync(connection, cancellationToken).ConfigureAwait(false);
                var version = await ReadVersionAsync(connection, cancellationToken).ConfigureAwait(false);
                if (version < steps.Version)
                    await MigrateAsync(connection, version, attempt, cancellationToken).ConfigureAwait(false);
                await transaction.CommitAsync(cancellationToken).ConfigureAwait(false);
            }

            return true;
        }
        catch (PostgresException exception) when (exception.SqlState is PostgresErrorCodes.DeadlockDetected or PostgresErrorCodes.LockNotAvailable && attempt < MaxAttempts)
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
                : throw Detached.InSync(new InvalidOperationException(
                    $"The schema {tables.Quoted} has version {version} of the tables, made by a later version of this package, which knows version {steps.Version}. Update the package."));
        }
    }

    private async Task MigrateAsync(NpgsqlConnection connection, int version, int attempt, CancellationToken cancellationToken)
    {
        // "if not exists" requires the right to create schemas even when the schema exists.
        var create = await ExistsAsync(connection, table: null, cancellationToken).ConfigureAwait(false) ? string.Empty : $"create schema {tables.Quoted};\n";
        await ExecuteAsync(connection, SqlScript.Split($"set local lock_timeout = {LockMilliseconds(attempt)};\n{create}{steps.After(version, tables)}"), cancellationToken).ConfigureAwait(false);
    }

    private static long LockMilliseconds(int attempt) => attempt * (long)FirstLockTime.TotalMilliseconds;

    // Without a time limit. One command for each statement, because an application may have told Npgsql not to take commands apart (Npgsql.EnableSqlRewriting).
    private static async Task ExecuteAsync(NpgsqlConnection connection, IEnumerable<string> statements, CancellationToken cancellationToken)
    {
        var batch = new NpgsqlBatch(connection) { Timeout = 0 };
        await using (batch.ConfigureAwait(false))
        {
            foreach (var statement in statements)
                batch.BatchCommands.Add(new NpgsqlBatchCommand(statement));
            await batch.ExecuteNonQueryAsync(cancellationToken).ConfigureAwait(false);
        }
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
        var command = new NpgsqlCommand("select pg_catalog.pg_advisory_xact_lock($1)", connection) { CommandTimeout = 0 };
        await using (command.ConfigureAwait(false))
        {
            command.Parameters.Add(new NpgsqlParameter<long> { TypedValue = BinaryPrimitives.ReadInt64LittleEndian(hash) });
            await command.ExecuteNonQueryAsync(cancellationToken).ConfigureAwait(false);
        }
    }
}

/// <summary>Takes the scripts of this package apart.</summary>
internal static class SqlScript
{
    /// <summary>Returns the statements of a script, without the semicolons that end them. It knows quotes, in which names may have semicolons, but neither comments nor dollar quotes.</summary>
    public static IEnumerable<string> Split(string script)
    {
        var start = 0;
        var quote = '\0';
        for (var at = 0; at < script.Length; at++)
        {
            var character = script[at];
            if (character == quote)
                quote = '\0';
            else if (quote == '\0' && character is ('"' or '\''))
                quote = character;
            if (character != ';' || quote != '\0')
                continue;
            yield return script[start..at];
            start = at + 1;
        }

        if (!string.IsNullOrWhiteSpace(script[start..]))
            yield return script[start..];
    }
}
