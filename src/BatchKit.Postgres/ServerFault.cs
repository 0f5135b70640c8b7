using BatchKit.Postgres.Schema;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>Describes an error of the server in a human-readable sentence, and decides whether the pool's connections are still usable.</summary>
internal static class ServerFault
{
    public static string Describe(Exception exception) => exception switch
    {
        PostgresException { SqlState: QueueGuard.Lost } => "The server knows the queue by another number: its tables were dropped, restored or made again. The queue is looked up again.",
        // Not Message, which also has lines with details that may quote a row's content.
        PostgresException { MessageText: var text, SqlState: var state } => $"The server said: {text} (SQLSTATE {state}).",
        OperationCanceledException => "The server did not answer in time.",
        _ => exception.InnerException is { } inner ? $"{exception.Message}: {inner.Message}" : exception.Message,
    };

    /// <summary>
    /// True when the remembered schema and queues are out of date and must be looked up again: the tables are gone, or a migration has changed them so that this version's statements no longer
    /// fit.
    /// </summary>
    public static bool LosesQueue(Exception exception) => exception is PostgresException
    {
        SqlState: QueueGuard.Lost or PostgresErrorCodes.UndefinedTable or PostgresErrorCodes.InvalidSchemaName
            or PostgresErrorCodes.UndefinedColumn or PostgresErrorCodes.UndefinedFunction or PostgresErrorCodes.DatatypeMismatch or PostgresErrorCodes.NotNullViolation,
    };

    /// <summary>True when the server can't be reached, or is not ready for statements that write.</summary>
    public static bool IsOutage(Exception exception) => exception is NpgsqlException and not PostgresException || SpoilsPool(exception);

    /// <summary>True when the pool's other connections lead to a server that is read-only or shutting down, as after a fail-over, so that new ones are needed.</summary>
    public static bool SpoilsPool(Exception exception) => exception is PostgresException
    {
        SqlState: PostgresErrorCodes.ReadOnlySqlTransaction or PostgresErrorCodes.AdminShutdown or PostgresErrorCodes.CrashShutdown or PostgresErrorCodes.CannotConnectNow,
    };
}
