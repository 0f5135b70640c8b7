using Npgsql;
using WorldTicks.Hosting;

namespace WorldTicks.Ledger;

/// <summary>Creates the sample's own tables if they are missing.</summary>
internal sealed class LedgerSchema(NpgsqlDataSource dataSource, LedgerStatements statements, TicksOptions options)
{
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses.</exception>
    public async Task EnsureAsync(CancellationToken cancellationToken)
    {
        await using var connection = await dataSource.OpenConnectionAsync(cancellationToken);
        await using var transaction = await connection.BeginTransactionAsync(cancellationToken);
        // Several processes may start at once, and "if not exists" alone fails when two create a table at the same time.
        await using var locking = new NpgsqlCommand(statements.Lock, connection, transaction) { Parameters = { new() { Value = options.Schema } } };
        await locking.ExecuteNonQueryAsync(cancellationToken);
        await using var creating = new NpgsqlCommand(statements.Create, connection, transaction);
        await creating.ExecuteNonQueryAsync(cancellationToken);
        await transaction.CommitAsync(cancellationToken);
    }
}
