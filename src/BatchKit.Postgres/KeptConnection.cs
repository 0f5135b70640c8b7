using System.Data;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>
/// A connection that is kept from use to use, for one task at a time. One that breaks when it is used again is replaced once in silence: the server may have been restarted since, which
/// says nothing of how it is now. A use may therefore run twice.
/// </summary>
internal sealed class KeptConnection(NpgsqlDataSource dataSource) : IAsyncDisposable
{
    private NpgsqlConnection? _connection;

    public async Task<T> UseAsync<T>(Func<NpgsqlConnection, CancellationToken, Task<T>> use, CancellationToken cancellationToken)
    {
        if (_connection is { } kept)
        {
            try
            {
                return await use(kept, cancellationToken).ConfigureAwait(false);
            }
            catch (Exception exception) when (HasBroken(kept, exception) && !cancellationToken.IsCancellationRequested)
            {
                await ReleaseAsync().ConfigureAwait(false);
                // The pool's others are of the same age.
                dataSource.Clear();
            }
            catch
            {
                await ReleaseAsync().ConfigureAwait(false);
                throw;
            }
        }

        return await UseNewAsync(use, cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Gives the connection back to the pool; the next use opens one.</summary>
    public async ValueTask ReleaseAsync()
    {
        if (_connection is not { } connection)
            return;
        _connection = null;
        await connection.DisposeAsync().ConfigureAwait(false);
    }

    /// <summary>The same, without waiting: the pool resets it for its next user, not now.</summary>
    public void Release()
    {
        _connection?.Dispose();
        _connection = null;
    }

    public ValueTask DisposeAsync() => ReleaseAsync();

    private async Task<T> UseNewAsync<T>(Func<NpgsqlConnection, CancellationToken, Task<T>> use, CancellationToken cancellationToken)
    {
        _connection = await dataSource.OpenConnectionAsync(cancellationToken).ConfigureAwait(false);
        try
        {
            return await use(_connection, cancellationToken).ConfigureAwait(false);
        }
        catch
        {
            // It may be broken, or lead to a server that has become read-only.
            await ReleaseAsync().ConfigureAwait(false);
            throw;
        }
    }

    // A server that does not answer in time is known to be in trouble now.
    private static bool HasBroken(NpgsqlConnection connection, Exception exception) =>
        connection.State != ConnectionState.Open && exception is NpgsqlException and not { InnerException: TimeoutException };
}
