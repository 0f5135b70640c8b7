using BatchKit.Postgres.Schema;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using Npgsql;

namespace BatchKit.Postgres.Sending;

/// <summary>Wakes the receivers of queues by NOTIFY, in a separate transaction after the commit, at most once for each queue and interval.</summary>
/// <remarks>A failed notification is retried until it succeeds or the notifier is disposed. The failure is logged once per outage; receivers poll meanwhile.</remarks>
internal sealed class QueueNotifier(NpgsqlDataSource dataSource, Tables tables, TimeSpan interval, TimeProvider timeProvider, ILogger? logger = null, bool usesPreparedStatements = true) : IAsyncDisposable
{
    private const string Statement = "select pg_catalog.pg_notify($1, queue::pg_catalog.text) from pg_catalog.unnest($2) as queue";
    private const int TimeoutSeconds = 5;
    private static readonly TimeSpan StopLimit = TimeSpan.FromSeconds(2);

    private readonly string _channel = NotificationChannel.Of(tables);
    private readonly ILogger _logger = logger ?? NullLogger.Instance;
    private readonly RetrySchedule _schedule = new(TimeSpan.FromMilliseconds(100), TimeSpan.FromSeconds(5));
    private readonly CancellationTokenSource _hurrying = new();
    private readonly CancellationTokenSource _stopping = new();

    // Used by the running loop only.
    private int _failures;

    private volatile string? _fault;

    // Guards everything below.
    private readonly Lock _gate = new();
    private readonly HashSet<int> _pending = [];
    private readonly Dictionary<int, long> _sentAt = [];
    private Task _running = Task.CompletedTask;
    private bool _isRunning;
    private bool _isDisposed;

    /// <summary>Why notifications fail, in a sentence; null while they succeed.</summary>
    public string? Fault => _fault;

    /// <summary>Notifies the receivers of a queue with new messages, now or at the end of its interval. Returns at once. Thread-safe.</summary>
    public void Notify(QueueEntry queue)
    {
        lock (_gate)
        {
            if (_isDisposed)
                return;
            _pending.Add(queue.Id);
            if (_isRunning)
                return;
            _isRunning = true;
            _running = CallerContext.RunWithout(RunAsync);
        }
    }

    /// <summary>Returns the queues whose notification is due now. The caller sends it in the round trip of its insert, after the insert's commit. For the other queues it calls <see cref="Notify"/> when their messages are stored.</summary>
    public int[] TakeTurns(IReadOnlyCollection<QueueEntry> queues)
    {
        lock (_gate)
        {
            var now = timeProvider.GetTimestamp();
            ForgetSent(now);
            return [.. queues.Select(static queue => queue.Id).Where(queue => !_isDisposed && !_pending.Contains(queue) && _sentAt.TryAdd(queue, now))];
        }
    }

    /// <summary>Creates the command that notifies the receivers of the queues from <see cref="TakeTurns"/>.</summary>
    public NpgsqlBatchCommand CommandFor(int[] queues) => new(Statement)
    {
        Parameters = { new NpgsqlParameter<string> { TypedValue = _channel }, new NpgsqlParameter<int[]> { TypedValue = queues } },
    };

    /// <summary>Tries once to send all pending notifications, and stops. Throws nothing.</summary>
    public async ValueTask DisposeAsync()
    {
        Task running;
        lock (_gate)
        {
            if (_isDisposed)
                return;
            _isDisposed = true;
            running = _running;
        }

        // Npgsql's callback on a token may throw while its connection is being closed.
        await _hurrying.CancelAsync().ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        await running.WaitAsync(StopLimit, timeProvider).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        await _stopping.CancelAsync().ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        await running.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        _hurrying.Dispose();
        _stopping.Dispose();
    }

    private async Task RunAsync()
    {
        try
        {
            while (TakeDue(out var due, out var wait))
            {
                if (due.Length == 0)
                    await Task.Delay(wait, timeProvider, _hurrying.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
                else
                    await NotifyAsync(due).ConfigureAwait(false);
            }
        }
        catch (Exception exception)
        {
            // Only an exception of the clock leads here. The next notification starts the loop again.
            _fault = ServerFault.Describe(exception);
            lock (_gate)
                _isRunning = false;
        }
    }

    private async Task NotifyAsync(int[] due)
    {
        try
        {
            await SendAsync(due).ConfigureAwait(false);
            if (_failures > 0)
                Log.NotifyingAgain(_logger, tables.Schema, _failures);
            (_failures, _fault) = (0, null);
        }
        catch (Exception exception)
        {
            _fault = $"Receivers are not notified, so they find work by polling. {ServerFault.Describe(exception)}";
            if (_failures++ == 0)
                Log.NotifyingFailed(_logger, tables.Schema, ServerFault.Describe(exception));
            if (TryReturn(due))
                await Task.Delay(_schedule.DelayAfter(_failures, Random.Shared), timeProvider, _hurrying.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
    }

    // False when the notifier stops: notifications that failed at the end are given up.
    private bool TryReturn(int[] due)
    {
        lock (_gate)
        {
            if (_isDisposed)
                return false;
            _pending.UnionWith(due);
            foreach (var queue in due)
                _sentAt.Remove(queue);
            return true;
        }
    }

    // Forgets notifications that are older than the interval, so that memory does not grow with the number of queues.
    private void ForgetSent(long now)
    {
        foreach (var (queue, sentAt) in _sentAt)
        {
            if (timeProvider.GetElapsedTime(sentAt, now) >= interval)
                _sentAt.Remove(queue);
        }
    }

    // False when nothing is pending; the next notification starts the task again.
    private bool TakeDue(out int[] due, out TimeSpan wait)
    {
        lock (_gate)
        {
            // Both steps use the same time, so that the remaining entries have time left and no wait is negative.
            var now = timeProvider.GetTimestamp();
            ForgetSent(now);
            // When the notifier stops, no queue waits for its interval.
            due = [.. _pending.Where(queue => _isDisposed || !_sentAt.ContainsKey(queue))];
            _pending.ExceptWith(due);
            foreach (var queue in due)
                _sentAt[queue] = now;
            wait = due.Length > 0 || _pending.Count == 0 ? TimeSpan.Zero : _pending.Min(queue => WholeMilliseconds.Of(interval - timeProvider.GetElapsedTime(_sentAt[queue], now)));
            return _isRunning = (due.Length > 0 || _pending.Count > 0) && !_stopping.IsCancellationRequested;
        }
    }

    private Task<int> SendAsync(int[] queues) => Detached.UseAsync(dataSource, async (connection, stopping) =>
    {
        var batch = new NpgsqlBatch(connection) { Timeout = TimeoutSeconds, BatchCommands = { CommandFor(queues) } };
        await using (batch.ConfigureAwait(false))
        {
            if (usesPreparedStatements)
                await batch.PrepareAsync(stopping).ConfigureAwait(false);
            return await batch.ExecuteNonQueryAsync(stopping).ConfigureAwait(false);
        }
    }, _stopping.Token);
}
