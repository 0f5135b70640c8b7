using BatchKit.Postgres.Schema;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>Creates and migrates the tables of queues and outboxes.</summary>
/// <remarks>Transports, receivers and outboxes do this themselves unless <see cref="PostgresOptions.CreateSchema"/> is false. Any number of threads and processes may call it at the same time. It does not join an ambient transaction.</remarks>
public static class PostgresSchema
{
    /// <summary>The version of the tables that this package needs.</summary>
    public static int Version => SchemaSteps.Published.Version;

    /// <summary>Creates or migrates the tables in one transaction, under an advisory lock. Does nothing when the schema is up to date.</summary>
    /// <param name="dataSource">The database. The caller disposes it.</param>
    /// <param name="schema">The schema's name: 1 to 63 UTF-8 bytes.</param>
    /// <param name="cancellationToken">Cancels the call; nothing is changed then.</param>
    /// <exception cref="ArgumentException">A schema can't have that name.</exception>
    /// <exception cref="InvalidOperationException">A later version of this package made the schema, or the user lacks a required right.</exception>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses.</exception>
    public static async Task EnsureSchemaAsync(NpgsqlDataSource dataSource, string schema = "batchkit", CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(dataSource);
        QueueLimits.ThrowIfNoSchema(schema);
        var gate = new SchemaGate(dataSource, schema, mayCreate: true);
        await using (gate.ConfigureAwait(false))
            await gate.PassAsync(cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Returns the statements that migrate a schema from a version to <see cref="Version"/>, for your own migrations. Run them in one transaction.</summary>
    /// <param name="schema">The schema's name: 1 to 63 UTF-8 bytes.</param>
    /// <param name="fromVersion">The version of the existing tables; 0, the default, when there are none.</param>
    /// <returns>The statements; an empty string when there is nothing to migrate.</returns>
    /// <exception cref="ArgumentException">A schema can't have that name.</exception>
    /// <exception cref="ArgumentOutOfRangeException">The version does not exist.</exception>
    public static string GetScript(string schema = "batchkit", int fromVersion = 0)
    {
        QueueLimits.ThrowIfNoSchema(schema);
        ArgumentOutOfRangeException.ThrowIfNegative(fromVersion);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(fromVersion, Version);
        if (fromVersion == Version)
            return string.Empty;
        var tables = new Tables(schema);
        var create = fromVersion == 0 ? $"create schema if not exists {tables.Quoted};\n\n" : string.Empty;
        return create + SchemaSteps.Published.After(fromVersion, tables);
    }
}
