using System.Collections.Concurrent;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Sending;

/// <summary>
/// The connections of sends. The pool resets a returned connection with seven statements. The next send would wait for them, which takes a quarter of a small send's time. So connections stay open between
/// sends, and idle ones are returned to the pool once per second. Thread-safe.
/// </summary>
internal sealed class SendConnections : IAsyncDisposable
{
    private static readonly TimeSpan KeepTime = TimeSpan.FromSeconds(1);

    private readonly NpgsqlDataSource _dataSource;
    private readonly ConcurrentStack<KeptConnection> _idle = new();
    private readonly ITimer _release;
    // Sends that wait for a connection of the pool.
    private int _opening;
    private bool _isReleaseDue;
    private volatile bool _isDisposed;

    public SendConnections(NpgsqlDataSource dataSource, TimeProvider timeProvider)
    {
        _dataSource = dataSource;
        _release = CallerContext.CreateTimer(timeProvider, static self => ((SendConnections)self!).ReleaseIdle(), this);
    }

    /// <inheritdoc cref="KeptConnection.UseAsync"/>
    public async Task<T> UseAsync<T>(Func<NpgsqlConnection, CancellationToken, Task<T>> use, CancellationToken cancellationToken)
    {
        var isKept = _idle.TryPop(out var connection);
        connection ??= new KeptConnection(_dataSource);
        try
        {
            return await (isKept ? connection.UseAsync(use, cancellationToken) : OpenAndUseAsync(connection, use, cancellationToken)).ConfigureAwait(false);
        }
        finally
        {
            Return(connection);
        }
    }

    /// <summary>Returns idle connections to the pool, so that the next sends open new ones.</summary>
    public void ReleaseIdle()
    {
        // Reset first, so that a connection that becomes idle during the loop sets the timer again.
        Volatile.Write(ref _isReleaseDue, false);
        while (_idle.TryPop(out var connection))
            connection.Release();
    }

    /// <summary>Returns idle connections to the pool; each of the others is returned when its send ends.</summary>
    public async ValueTask DisposeAsync()
    {
        _isDisposed = true;
        await _release.DisposeAsync().ConfigureAwait(false);
        ReleaseIdle();
    }

    private async Task<T> OpenAndUseAsync<T>(KeptConnection connection, Func<NpgsqlConnection, CancellationToken, Task<T>> use, CancellationToken cancellationToken)
    {
        var isOpening = true;
        Interlocked.Increment(ref _opening);
        try
        {
            return await connection.UseAsync(
                (opened, token) =>
                {
                    isOpening = false;
                    Interlocked.Decrement(ref _opening);
                    return use(opened, token);
                },
                cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            if (isOpening)
                Interlocked.Decrement(ref _opening);
        }
    }

    private void Return(KeptConnection connection)
    {
        _idle.Push(connection);
        // With more concurrent sends than the pool has connections, new sends would take the kept connections, and sends that wait for the pool would starve. The pool serves sends in turn.
        if (_isDisposed || Volatile.Read(ref _opening) > 0)
            ReleaseIdle();
        else if (!Interlocked.Exchange(ref _isReleaseDue, true))
            _release.Change(KeepTime, Timeout.InfiniteTimeSpan);
    }
}
