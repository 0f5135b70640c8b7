using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>Tracks which of a receiver's tasks fail. Logs once when the first one fails, and once when all work again. Thread-safe.</summary>
internal sealed class ReceiverHealth(NpgsqlDataSource dataSource, PostgresQueueReceiverOptions options, ILogger logger)
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
    }

    public void Stopped(string why)
    {
        lock (_lock)
        {
            // A task that ended with the receiver does not count as working later.
            _failing.Clear();
            _fault = why;
        }
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
            dataSource.Clear();
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

    public static int SizeFor(PostgresQueueReceiverOptions options) => (options.Prefetch > 0 ? 1 : options.Concurrency) + OtherConnections;

    /// <summary>Describes an error in a sentence; for an exhausted pool the sentence names the setting to change.</summary>
    public static string Describe(Exception exception, PostgresQueueReceiverOptions options) => exception switch
    {
        // Npgsql has no exception type for it.
        NpgsqlException { InnerException: TimeoutException } when exception.Message.Contains("pool", StringComparison.OrdinalIgnoreCase) =>
            $"The pool of connections is exhausted: with {nameof(options.Concurrency)} {options.Concurrency} this receiver needs {SizeFor(options)}. Raise 'Maximum Pool Size', or lower {nameof(options.Concurrency)}.",
        _ => ServerFault.Describe(exception),
    };
}
