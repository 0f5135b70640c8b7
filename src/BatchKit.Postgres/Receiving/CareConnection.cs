using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>
/// The connection of upkeep and renewal, which take turns. Kept for as long as the receiver runs: given back each second, the pool would reset it each second, which is half of what an idle receiver
/// asks of the server.
/// </summary>
internal sealed class CareConnection(NpgsqlDataSource dataSource) : IAsyncDisposable
{
    private readonly SemaphoreSlim _turn = new(initialCount: 1);

    // Used by who has the turn.
    private NpgsqlConnection? _connection;

    public async Task<T> UseAsync<T>(Func<NpgsqlConnection, CancellationToken, Task<T>> use, CancellationToken cancellationToken)
    {
        await _turn.WaitAsync(cancellationToken).ConfigureAwait(false);
        try
        {
            _connection ??= await dataSource.OpenConnectionAsync(cancellationToken).ConfigureAwait(false);
            return await use(_connection, cancellationToken).ConfigureAwait(false);
        }
        catch
        {
            // It may be broken, or lead to a server that has become read-only.
            await ReleaseAsync().ConfigureAwait(false);
            throw;
        }
        finally
        {
            _turn.Release();
        }
    }

    public async ValueTask DisposeAsync()
    {
        await ReleaseAsync().ConfigureAwait(false);
        _turn.Dispose();
    }

    private async ValueTask ReleaseAsync()
    {
        if (_connection is not { } connection)
            return;
        _connection = null;
        await connection.DisposeAsync().ConfigureAwait(false);
    }
}
