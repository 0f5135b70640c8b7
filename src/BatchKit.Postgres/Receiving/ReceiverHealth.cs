using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>Tracks which of a receiver's tasks fail. Logs once when the first one fails, and once when all work again. Thread-safe.</summary>
internal sealed class ReceiverHealth(NpgsqlDataSource dataSource, PostgresQueueReceiverOptions options, ILogger logger, ConnectionReporter reporter)
{
    // Guards the set.
    private readonly Lock _lock = new();
    private readonly HashSet<object> _failing = new(ReferenceEqualityComparer.Instance);
    private volatile string? _fault = "The receiver has not started.";

    public string? Fault => _fault;

    public void Started()
    {
        lock (_lock)
        {
            _failing.Clear();
            _fault = null;
        }

        reporter.Open();
    }

    public void Stopped(string why)
    {
        lock (_lock)
        {
            // A task that ended with the receiver does not count as working later.
            _failing.Clear();
            _fault = why;
        }

        reporter.Close();
    }

    public void Failed(object task, Exception exception)
    {
        var reason = PoolNeeds.Describe(exception, options);
        bool isFirst;
        lock (_lock)
        {
            isFirst = _failing.Count == 0;
            _failing.Add(task);
            _fault = reason;
        }

        if (ServerFault.SpoilsPool(exception))
            Detached.Forget(dataSource);
        if (ServerFault.IsDisconnected(exception))
            reporter.Lose(reason);
        if (isFirst)
            Log.ServerFailed(logger, options.Queue, reason);
    }

    public void Succeeded(object task)
    {
        // The common case takes no lock.
        if (_fault is null)
            return;
        lock (_lock)
        {
            if (!_failing.Remove(task) || _failing.Count > 0)
                return;
            _fault = null;
        }

        Log.ServerWorks(logger, options.Queue);
        reporter.Open();
    }

    /// <summary>The task has ended, so its state no longer matters.</summary>
    public void Forget(object task)
    {
        lock (_lock)
            _failing.Remove(task);
    }
}

/// <summary>The number of connections that a receiver needs, and the error text for a smaller pool.</summary>
internal static class PoolNeeds
{
    // One for the listener, and one that upkeep and renewal share.
    private const int OtherConnections = 2;

    public static int SizeFor(PostgresQueueReceiverOptions options) => Exchanges(options) + OtherConnections;

    /// <summary>Describes an error in a sentence; for an exhausted pool the sentence names the setting to change.</summary>
    public static string Describe(Exception exception, PostgresQueueReceiverOptions options) => ServerFault.IsPoolExhausted(exception)
        ? $"The pool of connections is exhausted: this receiver needs {SizeFor(options)} connections, and other users of the data source need theirs. Raise 'Maximum Pool Size'."
        : ServerFault.Describe(exception);

    private static int Exchanges(PostgresQueueReceiverOptions options) => options switch
    {
        { Shards: > 0 } => options.Concurrency,
        { Prefetch: > 0 } => 1,
        _ => Math.Min(options.Concurrency, SharedExchanges.Lanes),
    };
}

/// <summary>Counts what a receiver claims and settles. Thread-safe.</summary>
internal sealed class ReceiverCounters
{
    private long _claimedBatches;
    private long _claimedMessages;
    private long _completed;
    private long _retried;
    private long _buried;
    private long _released;
    private long _lost;
    private long _unreadable;
    private long _timedOut;
    private bool _hasNewer;
    private int _handling;
    private int _prefetched;
    private int _consecutiveFailures;

    public void Claimed(int messages)
    {
        Interlocked.Increment(ref _claimedBatches);
        Interlocked.Add(ref _claimedMessages, messages);
    }

    /// <returns>How many died.</returns>
    public long Settled(QueueBatch batch, OutcomePolicy policy)
    {
        Span<long> counts = stackalloc long[4];
        for (var index = 0; index < batch.Count; index++)
            counts[(int)policy.OutcomeOf(batch[index])]++;
        Interlocked.Add(ref _completed, counts[(int)MessageOutcome.Done]);
        Interlocked.Add(ref _retried, counts[(int)MessageOutcome.Retry]);
        Interlocked.Add(ref _buried, counts[(int)MessageOutcome.Dead]);
        Interlocked.Add(ref _released, counts[(int)MessageOutcome.Released]);
        return counts[(int)MessageOutcome.Dead];
    }

    public void Buried(int messages) => Interlocked.Add(ref _buried, messages);

    public void Lost(int messages) => Interlocked.Add(ref _lost, messages);

    public void Unreadable(int messages) => Interlocked.Add(ref _unreadable, messages);

    /// <summary>Whether these are the first messages of a newer version.</summary>
    public bool IsFirstNewer() => !Interlocked.Exchange(ref _hasNewer, true);

    public void TimedOut() => Interlocked.Increment(ref _timedOut);

    public void Handling(int messages) => Interlocked.Add(ref _handling, messages);

    public void Prefetched(int messages) => Interlocked.Add(ref _prefetched, messages);

    public void Succeeded() => Volatile.Write(ref _consecutiveFailures, 0);

    /// <returns>True for the first failure after a success.</returns>
    public bool Failed() => Interlocked.Increment(ref _consecutiveFailures) == 1;

    public PostgresQueueReceiverStatistics Read(int abandonedHandlers = 0) => new()
    {
        ClaimedBatches = Interlocked.Read(ref _claimedBatches),
        ClaimedMessages = Interlocked.Read(ref _claimedMessages),
        CompletedMessages = Interlocked.Read(ref _completed),
        RetriedMessages = Interlocked.Read(ref _retried),
        BuriedMessages = Interlocked.Read(ref _buried),
        ReleasedMessages = Interlocked.Read(ref _released),
        LostMessages = Interlocked.Read(ref _lost),
        UnreadableMessages = Interlocked.Read(ref _unreadable),
        TimedOutBatches = Interlocked.Read(ref _timedOut),
        AbandonedHandlers = abandonedHandlers,
        HandlingMessages = Volatile.Read(ref _handling),
        PrefetchedMessages = Volatile.Read(ref _prefetched),
        ConsecutiveFailures = Volatile.Read(ref _consecutiveFailures),
    };
}
