using Npgsql;

namespace BatchKit.Postgres.Schema;

/// <summary>Makes sure, once, that the schema is there before it is used; a failed attempt is made again by the next caller. Any thread.</summary>
internal sealed class SchemaGate(NpgsqlDataSource dataSource, string schema, bool mayCreate)
{
    private readonly SchemaMigration _migration = new(new Tables(schema), SchemaSteps.Published);
    private volatile bool _isOpen;

    public ValueTask PassAsync(CancellationToken cancellationToken) => _isOpen ? ValueTask.CompletedTask : PassSlowAsync(cancellationToken);

    /// <summary>The next caller looks again: what was there has gone.</summary>
    public void Close() => _isOpen = false;

    // Callers at once each look for themselves: the lock in the database lets one create, and the others see that it has.
    private async ValueTask PassSlowAsync(CancellationToken cancellationToken)
    {
        var connection = await dataSource.OpenConnectionAsync(cancellationToken).ConfigureAwait(false);
        await using (connection.ConfigureAwait(false))
        {
            if (mayCreate)
                await _migration.RunAsync(connection, cancellationToken).ConfigureAwait(false);
            else
                await _migration.CheckAsync(connection, cancellationToken).ConfigureAwait(false);
        }

        _isOpen = true;
    }
}
