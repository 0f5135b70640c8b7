using BatchKit.Postgres.Schema;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>Creates and migrates the tables of queues and outboxes.</summary>
/// <remarks>Transports, receivers and outboxes do it themselves unless <see cref="PostgresOptions.CreateSchema"/> is false. Safe from any thread and any number of processes at once.</remarks>
public static class PostgresSchema
{
    /// <summary>The version that this package needs.</summary>
    public static int Version => SchemaSteps.Published.Version;

    /// <summary>Creates what is missing, under an advisory lock, in one transaction; does nothing when the schema is up to date.</summary>
    /// <param name="dataSource">The database; the caller's to dispose.</param>
    /// <param name="schema">The schema's name: 1 to 63 UTF-8 bytes.</param>
    /// <param name="cancellationToken">Ends it; nothing is changed then.</param>
    /// <exception cref="ArgumentException">The name is not possible.</exception>
    /// <exception cref="InvalidOperationException">The schema was made by a later version of this package, or the user lacks a right that is needed.</exception>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses.</exception>
    public static async Task EnsureSchemaAsync(NpgsqlDataSource dataSource, string schema = "batchkit", CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(dataSource);
        QueueLimits.ThrowIfNoSchema(schema);
        await new SchemaGate(dataSource, schema, mayCreate: true).PassAsync(cancellationToken).ConfigureAwait(false);
    }

    /// <summary>The statements that bring a schema from a version to <see cref="Version"/>, for those who run their own migrations; run them in one transaction.</summary>
    /// <param name="schema">The schema's name: 1 to 63 UTF-8 bytes.</param>
    /// <param name="fromVersion">The version that is there; 0, the default, when there is none.</param>
    /// <returns>The statements; nothing when the version is there already.</returns>
    /// <exception cref="ArgumentException">The name is not possible.</exception>
    /// <exception cref="ArgumentOutOfRangeException">There is no such version.</exception>
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
