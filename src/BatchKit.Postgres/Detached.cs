using System.Runtime.CompilerServices;
using System.Transactions;
using BatchKit.Diagnostics;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>Opens connections outside the caller's ambient transaction, to the server that takes writes where there are several, and keeps spoiled ones out of the pool.</summary>
internal static class Detached
{
    // A table, because to read a property of a stranger's exception may throw.
    private static readonly ConditionalWeakTable<Exception, object> ThrownInSync = [];

    /// <summary>Names the server, or the servers, in a human-readable form without secrets.</summary>
    public static string Describe(NpgsqlDataSource dataSource)
    {
        var address = new NpgsqlConnectionStringBuilder(dataSource.ConnectionString);
        // With several hosts, each may have a port of its own.
        return dataSource is NpgsqlMultiHostDataSource ? $"PostgreSQL at {address.Host}" : $"PostgreSQL at {address.Host}:{address.Port}";
    }

    /// <summary>Opens a connection that takes no part in an ambient transaction, whatever the connection string's <c>Enlist</c> says. With several hosts it leads to one that takes writes.</summary>
    public static async ValueTask<NpgsqlConnection> OpenAsync(NpgsqlDataSource dataSource, CancellationToken cancellationToken)
    {
        using var alone = new TransactionScope(TransactionScopeOption.Suppress, TransactionScopeAsyncFlowOption.Enabled);
        return dataSource is NpgsqlMultiHostDataSource hosts
            ? await OpenWritableAsync(hosts, cancellationToken).ConfigureAwait(false)
            : await OpenAsync(dataSource.OpenConnectionAsync(cancellationToken).AsTask(), cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Waits for a connection that is being opened with the same token; one that comes too late is closed.</summary>
    /// <remarks>Npgsql heeds the token until it has reached the server, but not in the handshake (10.0.3). A server that accepts and answers nothing would hold a stop up for the connection string's <c>Timeout</c>.</remarks>
    public static async Task<NpgsqlConnection> OpenAsync(Task<NpgsqlConnection> opening, CancellationToken cancellationToken)
    {
        try
        {
            return await opening.WaitAsync(cancellationToken).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            _ = CloseAsync(opening);
            throw;
        }
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

    /// <summary>Marks an exception of this package that is thrown while a connection is used: no answer of the server was left in that.</summary>
    public static Exception InSync(Exception exception)
    {
        ThrownInSync.Add(exception, exception);
        return exception;
    }

    /// <summary>After a failure that is neither the server's, nor this package's, nor a cancellation: closes the pool's connections, the failed one as soon as it is returned.</summary>
    /// <remarks>
    /// Npgsql returns a connection to the pool as it is. When something threw inside Npgsql, such as a listener of its meters or activities, answers of the server may be left in the connection, and each later use
    /// would take the answer of the use before for its own.
    /// </remarks>
    public static void CloseSpoiled(NpgsqlDataSource dataSource, Exception exception, CancellationToken cancellationToken)
    {
        if (exception is PostgresException or NpgsqlException { InnerException: TimeoutException } || ThrownInSync.TryGetValue(exception, out _))
            return;
        if (exception is not OperationCanceledException || !cancellationToken.IsCancellationRequested)
            Forget(dataSource);
    }

    /// <summary>Closes the pool's connections, those in use as soon as they are returned, and forgets which of several hosts takes writes: Npgsql would remember it for <c>Host Recheck Seconds</c>.</summary>
    public static void Forget(NpgsqlDataSource dataSource)
    {
        dataSource.Clear();
        (dataSource as NpgsqlMultiHostDataSource)?.ClearDatabaseStates();
    }

    private static async Task CloseAsync(Task<NpgsqlConnection> opening)
    {
        try
        {
            var connection = await opening.ConfigureAwait(false);
            await connection.DisposeAsync().ConfigureAwait(false);
        }
        catch (Exception)
        {
            // No one waits for it any more.
        }
    }

    private static async Task<NpgsqlConnection> OpenWritableAsync(NpgsqlMultiHostDataSource hosts, CancellationToken cancellationToken)
    {
        try
        {
            return await HostSearch.Of(hosts).OpenAsync(cancellationToken).ConfigureAwait(false);
        }
        catch (NpgsqlException exception) when (exception is not PostgresException)
        {
            // A standby may be promoted at any moment, and Npgsql would remember for 10 s that it was none.
            hosts.ClearDatabaseStates();
            throw new NpgsqlException($"No connection to a host that takes writes could be opened. {FailureText.MessageOf(exception)}", exception.InnerException);
        }
    }
}
