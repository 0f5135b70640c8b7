using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>How many connections a receiver needs, and the sentence for when the pool has fewer.</summary>
internal static class PoolNeeds
{
    // One for the listener, and one for upkeep and renewal, which take turns.
    private const int OtherConnections = 2;

    public static int SizeFor(PostgresQueueReceiverOptions options) => (options.Prefetch > 0 ? 1 : options.Concurrency) + OtherConnections;

    /// <summary>What is wrong, as a sentence; an exhausted pool is told by the setting that it needs.</summary>
    public static string Describe(Exception exception, PostgresQueueReceiverOptions options) => exception switch
    {
        // Npgsql has no type of its own for it.
        NpgsqlException { InnerException: TimeoutException } when exception.Message.Contains("pool", StringComparison.OrdinalIgnoreCase) =>
            $"The pool of connections is exhausted: with {nameof(options.Concurrency)} {options.Concurrency} this receiver needs {SizeFor(options)} of them. Raise 'Maximum Pool Size', or lower {nameof(options.Concurrency)}.",
        _ => ServerFault.Describe(exception),
    };
}
