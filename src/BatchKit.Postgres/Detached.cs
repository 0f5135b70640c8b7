using System.Transactions;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>Opens connections of the pool outside the caller's ambient transaction, and keeps spoiled ones out of the pool.</summary>
internal static class Detached
{
    /// <summary>Opens a connection that takes no part in an ambient transaction, whatever the connection string's <c>Enlist</c> says.</summary>
    public static async ValueTask<NpgsqlConnection> OpenAsync(NpgsqlDataSource dataSource, CancellationToken cancellationToken)
    {
        using var alone = new TransactionScope(TransactionScopeOption.Suppress, TransactionScopeAsyncFlowOption.Enabled);
        return await dataSource.OpenConnectionAsync(cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Opens a connection for one use, and returns it to the pool.</summary>
    public static async Task<T> UseAsync<T>(NpgsqlDataSource dataSource, Func<NpgsqlConnection, CancellationToken, Task<T>> use, CancellationToken cancellationToken)
    {
        var connection = await OpenAsync(dataSource, cancellationToken).ConfigureAwait(false);
        await using (connection.ConfigureAwait(false))
        {
            try
            {
                return await use(connection, cancellationToken).ConfigureAwait(false);
            }
            catch (Exception exception)
            {
                CloseSpoiled(dataSource, exception, cancellationToken);
                throw;
            }
        }
    }

    /// <summary>After a failure that is neither the server's nor a cancellation: closes the pool's connections, the failed one as soon as it is returned.</summary>
    /// <remarks>
    /// Npgsql returns a connection to the pool as it is. When something threw inside Npgsql, such as a listener of its meters or activities, answers of the server may be left in the connection, and each later use
    /// would take the answer of the use before for its own.
    /// </remarks>
    public static void CloseSpoiled(NpgsqlDataSource dataSource, Exception exception, CancellationToken cancellationToken)
    {
        if (exception is not PostgresException and not NpgsqlException { InnerException: TimeoutException } && !(exception is OperationCanceledException && cancellationToken.IsCancellationRequested))
            dataSource.Clear();
    }
}
