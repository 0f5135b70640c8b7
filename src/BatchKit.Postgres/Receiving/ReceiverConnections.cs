using System.Threading.Channels;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>
/// The connections of all receivers of this process that have the same data source, schema and settings for listening: one that listens, one for upkeep and renewal, and those of exchanges. They exist from the
/// first receiver's start to the last one's stop. Thread-safe.
/// </summary>
internal sealed class ReceiverConnections : IAsyncDisposable
{
    private static readonly Lock Gate = new();
    private static readonly Dictionary<Sharing, ReceiverConnections> Shared = [];

    private readonly Sharing _sharing;
    private readonly CancellationTokenSource _stopping = new();
    private readonly Task _listening;

    // Guarded by the gate.
    private int _receivers;

    private ReceiverConnections(Sharing sharing, PostgresQueueReceiverOptions options)
    {
        _sharing = sharing;
        Listener = new QueueListener(sharing.DataSource, options, sharing.TimeProvider);
        Care = new CareConnection(sharing.DataSource, sharing.TimeProvider);
        Exchanges = new KeptConnections(sharing.DataSource, sharing.TimeProvider);
        _listening = CallerContext.RunWithout(() => Listener.RunAsync(_stopping.Token));
    }

    public QueueListener Listener { get; }

    public CareConnection Care { get; }

    public KeptConnections Exchanges { get; }

    /// <summary>Returns the connections for one more receiver, which disposes them when it ends.</summary>
    public static ReceiverConnections Join(NpgsqlDataSource dataSource, PostgresQueueReceiverOptions options, TimeProvider timeProvider)
    {
        var sharing = new Sharing(dataSource, timeProvider, options.Schema, options.ListenConnectionString, options.ListenKeepAlive, options.ReconnectDelay, options.MaxReconnectDelay);
        lock (Gate)
        {
            if (!Shared.TryGetValue(sharing, out var connections))
                Shared.Add(sharing, connections = new ReceiverConnections(sharing, options));
            connections._receivers++;
            return connections;
        }
    }

    /// <summary>A receiver has ended. After the last one it closes the connections.</summary>
    public async ValueTask DisposeAsync()
    {
        lock (Gate)
        {
            if (--_receivers > 0)
                return;
            Shared.Remove(_sharing);
        }

        // Npgsql's callback on a token may throw while its connection is being closed.
        await _stopping.CancelAsync().ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        await _listening.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        await Care.DisposeAsync().ConfigureAwait(false);
        await Exchanges.DisposeAsync().ConfigureAwait(false);
        _stopping.Dispose();
    }

    private sealed record Sharing(
        NpgsqlDataSource DataSource, TimeProvider TimeProvider, string Schema, string? ListenConnectionString, TimeSpan ListenKeepAlive, TimeSpan ReconnectDelay, TimeSpan MaxReconnectDelay);
}

/// <summary>
/// The connection of upkeep and renewal, which take turns. It stays open as long as a receiver runs. If it were returned after each use, the pool would reset it each second, which would double an idle
/// receiver's load on the server.
/// </summary>
/// <remarks>Who has waited too long for its turn, because another queue's upkeep is slow or its connection hangs, opens a connection. As soon as one is idle, the next that becomes idle is closed.</remarks>
internal sealed class CareConnection : IAsyncDisposable
{
    // An upkeep takes a millisecond, or some when there is much to do.
    private static readonly TimeSpan Patience = TimeSpan.FromMilliseconds(100);

    private readonly NpgsqlDataSource _dataSource;
    private readonly TimeProvider _timeProvider;
    private readonly Channel<KeptConnection> _idle = Channel.CreateUnbounded<KeptConnection>();

    public CareConnection(NpgsqlDataSource dataSource, TimeProvider timeProvider)
    {
        (_dataSource, _timeProvider) = (dataSource, timeProvider);
        _idle.Writer.TryWrite(new KeptConnection(dataSource));
    }

    /// <inheritdoc cref="KeptConnection.UseAsync"/>
    public async Task<T> UseAsync<T>(Func<NpgsqlConnection, CancellationToken, Task<T>> use, CancellationToken cancellationToken)
    {
        if (!_idle.Reader.TryRead(out var connection))
            connection = await WaitAsync(cancellationToken).ConfigureAwait(false);
        try
        {
            return await connection.UseAsync(use, cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            if (_idle.Reader.Count > 0 || !_idle.Writer.TryWrite(connection))
                await connection.DisposeAsync().ConfigureAwait(false);
        }
    }

    /// <summary>Closes the idle connection; one in use is closed when its use ends.</summary>
    public async ValueTask DisposeAsync()
    {
        _idle.Writer.TryComplete();
        while (_idle.Reader.TryRead(out var connection))
            await connection.DisposeAsync().ConfigureAwait(false);
    }

    private async ValueTask<KeptConnection> WaitAsync(CancellationToken cancellationToken)
    {
        using var patience = new CancellationTokenSource(Patience, _timeProvider);
        using var waiting = CancellationTokenSource.CreateLinkedTokenSource(cancellationToken, patience.Token);
        try
        {
            return await _idle.Reader.ReadAsync(waiting.Token).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (!cancellationToken.IsCancellationRequested)
        {
            return new KeptConnection(_dataSource);
        }
    }
}
