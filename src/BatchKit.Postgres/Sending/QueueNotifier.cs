using BatchKit.Postgres.Schema;
using Npgsql;

namespace BatchKit.Postgres.Sending;

/// <summary>Wakes the receivers of queues by NOTIFY, in a transaction of its own after the commit, at most once for each queue and interval.</summary>
/// <remarks>A failed notification is not logged and not retried, because receivers also poll.</remarks>
internal sealed class QueueNotifier(NpgsqlDataSource dataSource, Tables tables, TimeSpan interval, TimeProvider timeProvider) : IAsyncDisposable
{
    private const string Statement = "select pg_catalog.pg_notify($1, queue::text) from unnest($2) as queue";
    private const int TimeoutSeconds = 5;
    private static readonly TimeSpan StopLimit = TimeSpan.FromSeconds(2);

    private readonly string _channel = NotificationChannel.Of(tables);
    private readonly CancellationTokenSource _hurrying = new();
    private readonly CancellationTokenSource _stopping = new();

    // Guards everything below.
    private readonly Lock _gate = new();
    private readonly HashSet<int> _pending = [];
    private readonly Dictionary<int, long> _sentAt = [];
    private Task _running = Task.CompletedTask;
    private bool _isRunning;
    private bool _isDisposed;

    /// <summary>Notifies of a queue with new messages, now or at the end of its interval; returns at once. Thread-safe.</summary>
    public void Notify(QueueEntry queue)
    {
        lock (_gate)
        {
            if (_isDisposed || !_pending.Add(queue.Id) || _isRunning)
                return;
            _isRunning = true;
            _running = Task.Run(RunAsync);
        }
    }

    /// <summary>Returns those of the queues whose notification is due now. The caller sends it together with its insert, after the insert's commit, and calls <see cref="Notify"/> for the other queues once their messages are stored.</summary>
    public int[] TakeTurns(IReadOnlyCollection<QueueEntry> queues)
    {
        lock (_gate)
        {
            var now = timeProvider.GetTimestamp();
            ForgetSent(now);
            return [.. queues.Select(static queue => queue.Id).Where(queue => !_isDisposed && !_pending.Contains(queue) && _sentAt.TryAdd(queue, now))];
        }
    }

    /// <summary>Creates the command that notifies of the queues from <see cref="TakeTurns"/>.</summary>
    public NpgsqlBatchCommand CommandFor(int[] queues) => new(Statement)
    {
        Parameters = { new NpgsqlParameter<string> { TypedValue = _channel }, new NpgsqlParameter<int[]> { TypedValue = queues } },
    };

    /// <summary>Sends all pending notifications, and stops.</summary>
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

        await _hurrying.CancelAsync().ConfigureAwait(false);
        try
        {
            await running.WaitAsync(StopLimit, timeProvider).ConfigureAwait(false);
        }
        catch (TimeoutException)
        {
            await _stopping.CancelAsync().ConfigureAwait(false);
            await running.ConfigureAwait(false);
        }

        _hurrying.Dispose();
        _stopping.Dispose();
    }

    private async Task RunAsync()
    {
        while (TakeDue(out var due, out var wait))
        {
            await TryAsync(() => due.Length == 0 ? Task.Delay(wait, timeProvider, _hurrying.Token) : SendAsync(due)).ConfigureAwait(false);
        }
    }

    private static async Task TryAsync(Func<Task> send)
    {
        try
        {
            await send().ConfigureAwait(false);
        }
        catch (Exception exception) when (exception is NpgsqlException or InvalidOperationException or OperationCanceledException or TimeoutException)
        {
            // Receivers find the rows by polling, and the next send notifies again.
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
            // The same time for both steps: the entries that are kept have time left, so that no wait is negative.
            var now = timeProvider.GetTimestamp();
            ForgetSent(now);
            // When the notifier stops, no queue waits for its interval.
            due = [.. _pending.Where(queue => _isDisposed || !_sentAt.ContainsKey(queue))];
            _pending.ExceptWith(due);
            foreach (var queue in due)
                _sentAt[queue] = now;
            wait = due.Length > 0 || _pending.Count == 0 ? TimeSpan.Zero : _pending.Min(queue => WholeMilliseconds(interval - timeProvider.GetElapsedTime(_sentAt[queue], now)));
            return _isRunning = (due.Length > 0 || _pending.Count > 0) && !_stopping.IsCancellationRequested;
        }
    }

    // Task.Delay rounds down to whole milliseconds: a shorter delay would end at once, again and again until the interval is over.
    private static TimeSpan WholeMilliseconds(TimeSpan wait) => TimeSpan.FromMilliseconds(Math.Ceiling(wait.TotalMilliseconds));

    private async Task SendAsync(int[] queues)
    {
        var connection = await Detached.OpenAsync(dataSource, _stopping.Token).ConfigureAwait(false);
        await using (connection.ConfigureAwait(false))
        {
            var batch = new NpgsqlBatch(connection) { Timeout = TimeoutSeconds, BatchCommands = { CommandFor(queues) } };
            await using (batch.ConfigureAwait(false))
            {
                await batch.PrepareAsync(_stopping.Token).ConfigureAwait(false);
                await batch.ExecuteNonQueryAsync(_stopping.Token).ConfigureAwait(false);
            }
        }
    }
}
