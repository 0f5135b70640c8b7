using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>What is wrong with the server, for a person, and whether the pool's connections are still good for anything.</summary>
internal static class ServerFault
{
    // One for the listener, and one for upkeep and renewal, which take turns.
    private const int OtherConnections = 2;

    public static int PoolSizeFor(PostgresQueueReceiverOptions options) => (options.Prefetch > 0 ? 1 : options.Concurrency) + OtherConnections;

    public static string Describe(Exception exception, PostgresQueueReceiverOptions options) => exception switch
    {
        // Npgsql has no type of its own for it.
        NpgsqlException { InnerException: TimeoutException } when exception.Message.Contains("pool", StringComparison.OrdinalIgnoreCase) =>
            $"The pool of connections is exhausted: with {nameof(options.Concurrency)} {options.Concurrency} this receiver needs {PoolSizeFor(options)} of them. Raise 'Maximum Pool Size', or lower {nameof(options.Concurrency)}.",
        PostgresException { MessageText: var text, SqlState: var state } => $"The server said: {text} (SQLSTATE {state}).",
        OperationCanceledException => "The server did not answer in time.",
        _ => exception.InnerException is { } inner ? $"{exception.Message}: {inner.Message}" : exception.Message,
    };

    /// <summary>True when the pool's other connections lead to a server that is read-only or going down, so that new ones should be made.</summary>
    public static bool SpoilsPool(Exception exception) => exception is PostgresException
    {
        SqlState: PostgresErrorCodes.ReadOnlySqlTransaction or PostgresErrorCodes.AdminShutdown or PostgresErrorCodes.CrashShutdown or PostgresErrorCodes.CannotConnectNow,
    };
}
