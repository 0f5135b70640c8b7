using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>
/// The connection of upkeep and renewal, which take turns. Kept for as long as the receiver runs: given back each second, the pool would reset it each second, which is half of what an idle receiver
/// asks of the server.
/// </summary>
internal sealed class CareConnection(NpgsqlDataSource dataSource) : IAsyncDisposable
{
    private readonly SemaphoreSlim _turn = new(initialCount: 1);
    private readonly KeptConnection _connection = new(dataSource);

    public async Task<T> UseAsync<T>(Func<NpgsqlConnection, CancellationToken, Task<T>> use, CancellationToken cancellationToken)
    {
        await _turn.WaitAsync(cancellationToken).ConfigureAwait(false);
        try
        {
            return await _connection.UseAsync(use, cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            _turn.Release();
        }
    }

    public async ValueTask DisposeAsync()
    {
        await _connection.DisposeAsync().ConfigureAwait(false);
        _turn.Dispose();
    }
}
