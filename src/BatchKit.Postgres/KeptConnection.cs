using System.Data;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>
/// A connection that stays open between uses, for one task at a time. When it turns out to be broken at its next use, it is replaced once without an error, because the server may have
/// restarted in between. A use may therefore run twice.
/// </summary>
/// <param name="dataSource">Where it is from.</param>
/// <param name="open">Opens it.</param>
internal sealed class KeptConnection(NpgsqlDataSource dataSource, Func<CancellationToken, ValueTask<NpgsqlConnection>> open) : IAsyncDisposable
{
    private NpgsqlConnection? _connection;

    public KeptConnection(NpgsqlDataSource dataSource)
        : this(dataSource, cancellationToken => Detached.OpenAsync(dataSource, cancellationToken))
    {
    }

    /// <summary>False before its first use, and after a use that failed.</summary>
    public bool IsOpen => _connection is not null;

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
                // The pool's other connections are as old.
                Detached.Forget(dataSource);
            }
            catch (Exception exception)
            {
                await ReleaseAfterAsync(exception, cancellationToken).ConfigureAwait(false);
                throw;
            }
        }

        return await UseNewAsync(use, cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Returns the connection to the pool without waiting: the pool resets it when it is opened next. Throws nothing, because a timer calls it.</summary>
    public void Release()
    {
        var connection = _connection;
        _connection = null;
        try
        {
            connection?.Dispose();
        }
        catch (Exception)
        {
            // The connection is given up; the pool opens another one.
        }
    }

    public ValueTask DisposeAsync() => ReleaseAsync();

    // The next use opens another connection. Throws nothing: one that can't be returned is given up.
    private async ValueTask ReleaseAsync()
    {
        if (_connection is not { } connection)
            return;
        _connection = null;
        try
        {
            await connection.DisposeAsync().ConfigureAwait(false);
        }
        catch (Exception)
        {
            // The pool opens another one.
        }
    }

    private async Task<T> UseNewAsync<T>(Func<NpgsqlConnection, CancellationToken, Task<T>> use, CancellationToken cancellationToken)
    {
        _connection = await open(cancellationToken).ConfigureAwait(false);
        try
        {
            return await use(_connection, cancellationToken).ConfigureAwait(false);
        }
        catch (Exception exception)
        {
            // The connection may be broken, or its server may have become read-only.
            await ReleaseAfterAsync(exception, cancellationToken).ConfigureAwait(false);
            throw;
        }
    }

    private ValueTask ReleaseAfterAsync(Exception exception, CancellationToken cancellationToken)
    {
        Detached.CloseSpoiled(dataSource, exception, cancellationToken);
        return ReleaseAsync();
    }

    // A timeout does not count, because it shows that the server is in trouble now.
    private static bool HasBroken(NpgsqlConnection connection, Exception exception) =>
        connection.State != ConnectionState.Open && exception is NpgsqlException and not { InnerException: TimeoutException };
}
