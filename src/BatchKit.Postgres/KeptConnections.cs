using System.Collections.Concurrent;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>
/// Connections that stay open between uses, such as sends or exchanges. The pool resets a returned connection with seven statements. The next use would wait for them, which takes a quarter of a small send's
/// time. So a connection is returned to the pool when it was idle for a second. Thread-safe.
/// </summary>
internal sealed class KeptConnections : IAsyncDisposable
{
    private static readonly TimeSpan KeepTime = TimeSpan.FromSeconds(1);

    private readonly NpgsqlDataSource _dataSource;
    private readonly TimeProvider _timeProvider;
    // The last used one is used next, so that the others become old.
    private readonly ConcurrentStack<(KeptConnection Connection, long IdleSince)> _idle = new();
    private readonly ITimer _release;
    // Uses that wait for a connection of the pool.
    private int _opening;
    private bool _isReleaseDue;
    private volatile bool _isDisposed;

    public KeptConnections(NpgsqlDataSource dataSource, TimeProvider timeProvider)
    {
        (_dataSource, _timeProvider) = (dataSource, timeProvider);
        _release = CallerContext.CreateTimer(timeProvider, static self => ((KeptConnections)self!).ReleaseOld(), this);
    }

    /// <inheritdoc cref="KeptConnection.UseAsync"/>
    public async Task<T> UseAsync<T>(Func<NpgsqlConnection, CancellationToken, Task<T>> use, CancellationToken cancellationToken)
    {
        var connection = _idle.TryPop(out var idle) ? idle.Connection : new KeptConnection(_dataSource, OpenAsync);
        try
        {
            return await connection.UseAsync(use, cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            Return(connection);
        }
    }

    /// <summary>Returns idle connections to the pool, so that the next uses open new ones.</summary>
    public void ReleaseIdle()
    {
        while (_idle.TryPop(out var idle))
            idle.Connection.Release();
    }

    /// <summary>Returns idle connections to the pool; each of the others is returned when its use ends.</summary>
    public async ValueTask DisposeAsync()
    {
        _isDisposed = true;
        await _release.DisposeAsync().ConfigureAwait(false);
        ReleaseIdle();
    }

    private async ValueTask<NpgsqlConnection> OpenAsync(CancellationToken cancellationToken)
    {
        Interlocked.Increment(ref _opening);
        try
        {
            return await Detached.OpenAsync(_dataSource, cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            Interlocked.Decrement(ref _opening);
        }
    }

    private void Return(KeptConnection connection)
    {
        // A use that failed leaves none. It would be taken before those that are open.
        if (connection.IsOpen)
            _idle.Push((connection, _timeProvider.GetTimestamp()));
        // With more concurrent uses than the pool has connections, new uses would take the kept connections, and those that wait for the pool would starve. The pool serves them in turn.
        if (_isDisposed || Volatile.Read(ref _opening) > 0)
            ReleaseIdle();
        else
            SetTimer();
    }

    private void SetTimer()
    {
        if (!Interlocked.Exchange(ref _isReleaseDue, true))
            _release.Change(KeepTime, Timeout.InfiniteTimeSpan);
    }

    private void ReleaseOld()
    {
        // Reset first, so that a connection that becomes idle during the loop sets the timer again.
        Volatile.Write(ref _isReleaseDue, false);
        var recent = new Stack<(KeptConnection, long)>();
        while (_idle.TryPop(out var idle))
        {
            if (_timeProvider.GetElapsedTime(idle.IdleSince) >= KeepTime)
                idle.Connection.Release();
            else
                recent.Push(idle);
        }

        if (recent.Count == 0)
            return;
        _idle.PushRange([.. recent]);
        // It may have been disposed in between.
        if (_isDisposed)
            ReleaseIdle();
        else
            SetTimer();
    }
}
