using BatchKit.Postgres.Schema;
using Npgsql;

namespace BatchKit.Postgres.Sending;

/// <summary>Wakes the receivers of queues: a NOTIFY of its own after the commit, at most one a queue and interval, from one task that its owner disposes.</summary>
/// <remarks>A notification that fails is logged by nobody and lost: receivers poll as well.</remarks>
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

    /// <summary>Says that a queue has new messages; returns at once. Any thread.</summary>
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

    /// <summary>The same, for who has a connection at hand, behind its commit: the first after a pause goes over that one, which spares the way through the pool. Does not throw.</summary>
    public async ValueTask NotifyAsync(NpgsqlConnection connection, QueueEntry queue, CancellationToken cancellationToken)
    {
        lock (_gate)
        {
            if (_isDisposed)
                return;
            var now = timeProvider.GetTimestamp();
            ForgetSent(now);
            if (_isRunning || !_sentAt.TryAdd(queue.Id, now))
            {
                Notify(queue);
                return;
            }
        }

        await TryAsync(() => SendAsync(connection, [queue.Id], cancellationToken)).ConfigureAwait(false);
    }

    /// <summary>Sends what is due, and ends.</summary>
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

    // What was sent an interval ago, so that nothing grows with the queues.
    private void ForgetSent(long now)
    {
        foreach (var (queue, sentAt) in _sentAt)
        {
            if (timeProvider.GetElapsedTime(sentAt, now) >= interval)
                _sentAt.Remove(queue);
        }
    }

    // False when nothing waits: the next notification starts the task again.
    private bool TakeDue(out int[] due, out TimeSpan wait)
    {
        lock (_gate)
        {
            // One time for both: what is kept has some of its interval left, so that no wait is negative.
            var now = timeProvider.GetTimestamp();
            ForgetSent(now);
            // At the end nothing waits for its interval.
            due = [.. _pending.Where(queue => _isDisposed || !_sentAt.ContainsKey(queue))];
            _pending.ExceptWith(due);
            foreach (var queue in due)
                _sentAt[queue] = now;
            wait = due.Length > 0 || _pending.Count == 0 ? TimeSpan.Zero : _pending.Min(queue => interval - timeProvider.GetElapsedTime(_sentAt[queue], now));
            return _isRunning = (due.Length > 0 || _pending.Count > 0) && !_stopping.IsCancellationRequested;
        }
    }

    private async Task SendAsync(int[] queues)
    {
        var connection = await dataSource.OpenConnectionAsync(_stopping.Token).ConfigureAwait(false);
        await using (connection.ConfigureAwait(false))
            await SendAsync(connection, queues, _stopping.Token).ConfigureAwait(false);
    }

    private async Task SendAsync(NpgsqlConnection connection, int[] queues, CancellationToken cancellationToken)
    {
        var command = new NpgsqlCommand(Statement, connection) { CommandTimeout = TimeoutSeconds };
        await using (command.ConfigureAwait(false))
        {
            command.Parameters.Add(new NpgsqlParameter<string> { TypedValue = _channel });
            command.Parameters.Add(new NpgsqlParameter<int[]> { TypedValue = queues });
            await command.PrepareAsync(cancellationToken).ConfigureAwait(false);
            await command.ExecuteNonQueryAsync(cancellationToken).ConfigureAwait(false);
        }
    }
}
