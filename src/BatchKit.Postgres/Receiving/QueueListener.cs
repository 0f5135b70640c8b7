using System.Globalization;
using BatchKit.Postgres.Schema;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>Listens for one queue's notifications on a connection of its own, which it checks and replaces. It wakes its owner after each reconnect too, because notifications in between were lost.</summary>
/// <param name="dataSource">The database.</param>
/// <param name="tables">The schema's tables.</param>
/// <param name="options">The receiver's settings.</param>
/// <param name="wake">Called for each notification, and after each reconnect.</param>
/// <param name="timeProvider">The clock.</param>
/// <param name="logger">The logger; null logs nothing.</param>
/// <param name="ended">Called when listening has ended: a receiver without work would otherwise learn at the next poll that its server is gone.</param>
internal sealed class QueueListener(
    NpgsqlDataSource dataSource, Tables tables, PostgresQueueReceiverOptions options, Action wake, TimeProvider timeProvider, ILogger? logger = null, Action? ended = null)
{
    // Npgsql 10.0.0 loses a cancellation when a notification ends the previous wait at that moment (20 of 82,501 tries). A stop would then wait for the end of this wait.
    private static readonly TimeSpan LongestWait = TimeSpan.FromSeconds(2);

    private readonly ILogger _logger = logger ?? NullLogger.Instance;
    private readonly RetrySchedule _schedule = new(options.ReconnectDelay, options.MaxReconnectDelay);

    // LISTEN takes no parameters. The name consists of letters, digits and a colon, so nothing needs escaping.
    private readonly string _listen = $"listen \"{NotificationChannel.Of(tables)}\"";
    private int _failures;
    private long? _listensSince;
    private bool _isAgainLogged;
    private volatile string? _fault;

    /// <summary>Why it does not listen now, in a sentence; null while it does. The receiver polls meanwhile.</summary>
    public string? Fault => _fault;

    /// <summary>Listens until it is cancelled, whatever the server does.</summary>
    public async Task RunAsync(QueueEntry queue, CancellationToken stopping)
    {
        while (!stopping.IsCancellationRequested)
        {
            try
            {
                await ListenAsync(queue, stopping).ConfigureAwait(false);
            }
            catch (OperationCanceledException) when (stopping.IsCancellationRequested)
            {
                return;
            }
            catch (Exception exception)
            {
                // A new connection ends every failure, and until then the receiver polls. The failure is logged once per outage, because the receiver itself logs more.
                _fault = $"Listening for notifications ended, so work is found by polling. {ServerFault.Describe(exception)}";
                // A connection that was never checked, because it did not last that long, was part of the same outage.
                if (_listensSince is { } since && timeProvider.GetElapsedTime(since) >= options.ListenKeepAlive)
                    (_failures, _isAgainLogged) = (0, false);
                _listensSince = null;
                if (_failures++ == 0)
                {
                    Log.ListeningEnded(_logger, queue.Name, ServerFault.Describe(exception));
                    ended?.Invoke();
                }
            }

            await Task.Delay(_schedule.DelayAfter(Math.Max(_failures, 1), Random.Shared), timeProvider, stopping).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
    }

    private async Task ListenAsync(QueueEntry queue, CancellationToken stopping)
    {
        var connection = await OpenAsync(stopping).ConfigureAwait(false);
        await using (connection.ConfigureAwait(false))
        {
            var payload = queue.Id.ToString(CultureInfo.InvariantCulture);
            connection.Notification += (_, notification) =>
            {
                if (string.Equals(notification.Payload, payload, StringComparison.Ordinal))
                    wake();
            };
            await ExecuteAsync(connection, _listen, stopping).ConfigureAwait(false);
            if (_failures > 0 && !_isAgainLogged)
            {
                _isAgainLogged = true;
                Log.ListeningAgain(_logger, queue.Name, _failures);
            }

            (_listensSince, _fault) = (timeProvider.GetTimestamp(), null);
            wake();
            while (true)
            {
                // A connection that a router has dropped is silent for ever. Only a query can show that.
                if (!await WaitAsync(connection, stopping).ConfigureAwait(false))
                    await CheckAsync(connection, stopping).ConfigureAwait(false);
            }
        }
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

    private async ValueTask<NpgsqlConnection> OpenAsync(CancellationToken stopping)
    {
        if (options.ListenConnectionString is not { } connectionString)
            return await Detached.OpenAsync(dataSource, stopping).ConfigureAwait(false);
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

    // On a server that has become read-only no one notifies any more.
    private async Task CheckAsync(NpgsqlConnection connection, CancellationToken stopping)
    {
        if (await ExecuteAsync(connection, "select pg_catalog.current_setting('transaction_read_only')", stopping).ConfigureAwait(false) is not "on")
            return;
        Detached.Forget(dataSource);
        throw new NpgsqlException("The server has become read-only.");
    }

    private async Task<object?> ExecuteAsync(NpgsqlConnection connection, string sql, CancellationToken stopping)
    {
        var command = new NpgsqlCommand(sql, connection) { CommandTimeout = WholeSeconds.Of(options.ListenKeepAlive) };
        await using (command.ConfigureAwait(false))
            return await command.ExecuteScalarAsync(stopping).ConfigureAwait(false);
    }
}
