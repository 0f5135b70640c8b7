using Npgsql;

namespace BatchKit.Postgres.Schema;

/// <summary>Checks, before the schema is used, that a data source's connections fit this package's statements.</summary>
internal static class SessionCheck
{
    private const string CatalogSchema = "pg_catalog";
    private const string Isolation = "default_transaction_isolation";
    private const string Messages = "client_min_messages";

    /// <exception cref="ArgumentException">The data source can't be used; the message says what to change.</exception>
    public static void ThrowIfUnfit(NpgsqlDataSource dataSource)
    {
        if (new NpgsqlConnectionStringBuilder(dataSource.ConnectionString).Multiplexing)
        {
            throw new ArgumentException(
                "The data source has 'Multiplexing=true', with which Npgsql can't prepare statements and can't listen. Use another data source without it, also for the same database.", nameof(dataSource));
        }
    }

    /// <exception cref="InvalidOperationException">A connection does not fit; the message says what to change.</exception>
    public static async Task RunAsync(NpgsqlConnection connection, CancellationToken cancellationToken)
    {
        // Operators have no readable qualified form. Each one is applied to types for which pg_catalog has exactly it, and so is found there, as long as pg_catalog comes first, which is the default.
        var (path, isolation, messages) = await ReadSettingsAsync(connection, cancellationToken).ConfigureAwait(false);
        // Temporary tables come before it, and have no functions and operators.
        var first = path.Split(',').FirstOrDefault(static schema => !schema.StartsWith("pg_temp_", StringComparison.Ordinal));
        if (!string.Equals(first, CatalogSchema, StringComparison.Ordinal))
        {
            throw Detached.InSync(new InvalidOperationException(
                $"The search path of the database's user names {CatalogSchema} after other schemas ({path}), whose operators would run in place of PostgreSQL's. "
                + $"Put {CatalogSchema} first, or leave it out, in 'Search Path' of the connection string and in the user's and the database's settings."));
        }

        // With one snapshot for a whole transaction, messages are parked behind a delayed one that is gone already, for ever. PostgreSQL treats READ UNCOMMITTED as READ COMMITTED.
        if (isolation is not ("read committed" or "read uncommitted"))
        {
            throw Detached.InSync(new InvalidOperationException(
                $"The transactions of the database's user are '{isolation}' by default, in which an ordered queue would stand and others would fail again and again. "
                + $"Set {Isolation} to 'read committed' for the user, or put Options='-c {Isolation}=read\\ committed' into the connection string."));
        }

        // The server reports a commit that is not on the synchronous standby by a warning alone. The levels above it are error, and fatal and panic in older versions.
        if (messages is "error" or "fatal" or "panic")
        {
            throw Detached.InSync(new InvalidOperationException(
                $"{Messages} is '{messages}' for the database's user, which hides the server's warning that a commit is not on its standby, so that it could be lost. "
                + $"Set {Messages} to 'warning' for the user, or put Options='-c {Messages}=warning' into the connection string."));
        }
    }

    // The parameter shows, in the same round trip, whether the data source can send arrays.
    private static async Task<(string SearchPath, string Isolation, string Messages)> ReadSettingsAsync(NpgsqlConnection connection, CancellationToken cancellationToken)
    {
        var command = new NpgsqlCommand(
            $"select pg_catalog.array_to_string(pg_catalog.current_schemas(true), ','), pg_catalog.current_setting('{Isolation}'), pg_catalog.current_setting('{Messages}'), pg_catalog.cardinality($1)",
            connection)
        {
            Parameters = { new NpgsqlParameter<int[]> { TypedValue = [] } },
        };
        await using (command.ConfigureAwait(false))
        {
            try
            {
                var reader = await command.ExecuteReaderAsync(cancellationToken).ConfigureAwait(false);
                await using (reader.ConfigureAwait(false))
                {
                    await reader.ReadAsync(cancellationToken).ConfigureAwait(false);
                    return (reader.GetString(0), reader.GetString(1), reader.GetString(2));
                }
            }
            catch (Exception exception) when (exception is NotSupportedException or InvalidCastException)
            {
                throw Detached.InSync(new InvalidOperationException(
                    "The data source can't send arrays: call EnableArrays() on the NpgsqlSlimDataSourceBuilder that creates it, or use NpgsqlDataSourceBuilder.", exception));
            }
        }
    }
}
