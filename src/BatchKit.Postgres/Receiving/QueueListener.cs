using System.Globalization;
using BatchKit.Postgres.Schema;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>What a receiver wants to know of its queue's notifications.</summary>
/// <param name="Queue">The queue's number.</param>
/// <param name="Wake">Called for each notification.</param>
/// <param name="Look">Called after listening has begun, because notifications before were lost, and after it has ended: a receiver without work would otherwise learn at the next poll that its server is gone.</param>
/// <param name="Logger">The logger.</param>
internal sealed record QueueSubscription(int Queue, Action Wake, Action Look, ILogger Logger);

/// <summary>Listens for the notifications of a schema's queues on a connection of its own, which it checks and replaces. Each queue's notifications wake only its receivers.</summary>
internal sealed class QueueListener(NpgsqlDataSource dataSource, PostgresQueueReceiverOptions options, TimeProvider timeProvider)
{
    // Npgsql 10.0.0 loses a cancellation when a notification ends the previous wait at that moment (20 of 82,501 tries). A stop would then wait for the end of this wait.
    private static readonly TimeSpan LongestWait = TimeSpan.FromSeconds(2);

    private readonly RetrySchedule _schedule = new(options.ReconnectDelay, options.MaxReconnectDelay);

    // LISTEN takes no parameters. The name consists of letters, digits and a colon, so nothing needs escaping.
    private readonly string _listen = $"listen \"{NotificationChannel.Of(new Tables(options.Schema))}\"";
    // Guards changes of the array, which are copies.
    private readonly Lock _lock = new();
    private volatile QueueSubscription[] _subscriptions = [];

    private int _failures;
    private long? _listensSince;
    private bool _isAgainLogged;
    private volatile string? _fault;

    /// <summary>Why it does not listen now, in a sentence; null while it does. Receivers poll meanwhile.</summary>
    public string? Fault => _fault;

    public void Add(QueueSubscription subscription)
    {
        lock (_lock)
            _subscriptions = [.. _subscriptions, subscription];
    }

    public void Remove(QueueSubscription subscription)
    {
        lock (_lock)
            _subscriptions = Array.FindAll(_subscriptions, other => !ReferenceEquals(other, subscription));
    }

    /// <summary>Listens until it is cancelled, whatever the server does.</summary>
    public async Task RunAsync(CancellationToken stopping)
    {
        while (!stopping.IsCancellationRequested)
        {
            try
            {
                await ListenAsync(stopping).ConfigureAwait(false);
            }
            catch (OperationCanceledException) when (stopping.IsCancellationRequested)
            {
                return;
            }
            catch (Exception exception)
            {
                // A new connection ends every failure, and until then the receiver polls. The failure is logged once per outage, because the receiver itself logs more.
                _fault = $"Listening for notifications ended, so work is found by polling. {PoolNeeds.Describe(exception, options)}";
                // A connection that was never checked, because it did not last that long, was part of the same outage.
                if (_listensSince is { } since && timeProvider.GetElapsedTime(since) >= options.ListenKeepAlive)
                    (_failures, _isAgainLogged) = (0, false);
                _listensSince = null;
                if (_failures++ == 0)
                {
                    if (Logger is { } logger)
                        Log.ListeningEnded(logger, options.Schema, PoolNeeds.Describe(exception, options));
                    LookAll();
                }
            }

            await Task.Delay(_schedule.DelayAfter(Math.Max(_failures, 1), Random.Shared), timeProvider, stopping).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
    }

    private async Task ListenAsync(CancellationToken stopping)
    {
        var connection = await OpenAsync(stopping).ConfigureAwait(false);
        await using (connection.ConfigureAwait(false))
        {
            connection.Notification += (_, notification) => Wake(notification.Payload);
            // Before anyone is told that it listens: a session may be read-only longer than its server is, and would be found out a keep-alive later.
            await CheckAsync(connection, stopping).ConfigureAwait(false);
            await ExecuteAsync(connection, _listen, stopping).ConfigureAwait(false);
            if (_failures > 0 && !_isAgainLogged)
            {
                _isAgainLogged = true;
                if (Logger is { } logger)
                    Log.ListeningAgain(logger, options.Schema, _failures);
            }

            (_listensSince, _fault) = (timeProvider.GetTimestamp(), null);
            LookAll();
            while (true)
            {
                // A connection that a router has dropped is silent for ever. Only a query can show that.
                if (!await WaitAsync(connection, stopping).ConfigureAwait(false))
                    await CheckAsync(connection, stopping).ConfigureAwait(false);
            }
        }
    }

    // One receiver's logger is enough: an outage is logged once.
    private ILogger? Logger => _subscriptions is [var first, ..] ? first.Logger : null;

    private void Wake(string payload)
    {
        if (!int.TryParse(payload, NumberStyles.None, CultureInfo.InvariantCulture, out var queue))
            return;
        foreach (var subscription in _subscriptions)
        {
            if (subscription.Queue == queue)
                subscription.Wake();
        }
    }

    private void LookAll()
    {
        foreach (var subscription in _subscriptions)
            subscription.Look();
    }

    /// <summary>Waits for a notification.</summary>
    /// <returns>False when none came within <see cref="PostgresQueueReceiverOptions.ListenKeepAlive"/>.</returns>
    private async Task<bool> WaitAsync(NpgsqlConnection connection, CancellationToken stopping)
    {
        for (var left = options.ListenKeepAlive; left > TimeSpan.Zero; left -= LongestWait)
        {
            if (await connection.WaitAsync(left < LongestWait ? left : LongestWait, stopping).ConfigureAwait(false))
                return true;
        }

        return false;
    }

    private async ValueTask<NpgsqlConnection> OpenAsync(CancellationToken stopping) => options.ListenConnectionString is { } connectionString
        ? await Detached.OpenAsync(OpenAsync(connectionString, stopping), stopping).ConfigureAwait(false)
        : await Detached.OpenAsync(dataSource, stopping).ConfigureAwait(false);

    private static async Task<NpgsqlConnection> OpenAsync(string connectionString, CancellationToken stopping)
    {
        // Not pooled, because it is used for as long as the receiver runs.
        var settings = new NpgsqlConnectionStringBuilder(connectionString) { Pooling = false, Enlist = false };
        // Of several hosts the one that notifies is the one that takes writes, which may change before Npgsql would look again.
        if (settings.Host!.Contains(',', StringComparison.Ordinal))
            (settings.TargetSessionAttributes, settings.HostRecheckSeconds) = ("read-write", 0);
        var connection = new NpgsqlConnection(settings.ConnectionString);
        try
        {
            await connection.OpenAsync(stopping).ConfigureAwait(false);
            return connection;
        }
        catch
        {
            await connection.DisposeAsync().ConfigureAwait(false);
            throw;
        }
    }

    // On a server that is read-only no one notifies.
    private async Task CheckAsync(NpgsqlConnection connection, CancellationToken stopping)
    {
        if (await ExecuteAsync(connection, "select pg_catalog.current_setting('transaction_read_only')", stopping).ConfigureAwait(false) is not "on")
            return;
        Detached.Forget(dataSource);
        throw new NpgsqlException("The server is read-only: it is a standby, or was configured read-only.");
    }

    private async Task<object?> ExecuteAsync(NpgsqlConnection connection, string sql, CancellationToken stopping)
    {
        var command = new NpgsqlCommand(sql, connection) { CommandTimeout = WholeSeconds.Of(options.ListenKeepAlive) };
        await using (command.ConfigureAwait(false))
            return await command.ExecuteScalarAsync(stopping).ConfigureAwait(false);
    }
}
