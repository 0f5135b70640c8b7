using System.Transactions;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>Opens connections outside the caller's ambient transaction.</summary>
internal static class Detached
{
    /// <summary>Opens a connection that takes no part in an ambient transaction, whatever the connection string's <c>Enlist</c> says.</summary>
    public static async ValueTask<NpgsqlConnection> OpenAsync(NpgsqlDataSource dataSource, CancellationToken cancellationToken)
    {
        using var alone = new TransactionScope(TransactionScopeOption.Suppress, TransactionScopeAsyncFlowOption.Enabled);
        return await dataSource.OpenConnectionAsync(cancellationToken).ConfigureAwait(false);
    }
}
