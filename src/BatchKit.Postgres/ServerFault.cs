using Npgsql;

namespace BatchKit.Postgres;

/// <summary>What is wrong with the server, as a sentence for a person, and whether the pool's connections are still good for anything.</summary>
internal static class ServerFault
{
    public static string Describe(Exception exception) => exception switch
    {
        // Its Message has lines with details, which may hold what a row held.
        PostgresException { MessageText: var text, SqlState: var state } => $"The server said: {text} (SQLSTATE {state}).",
        OperationCanceledException => "The server did not answer in time.",
        _ => exception.InnerException is { } inner ? $"{exception.Message}: {inner.Message}" : exception.Message,
    };

    /// <summary>True when the pool's other connections lead to a server that is read-only or going down, as after a fail-over, so that new ones should be made.</summary>
    public static bool SpoilsPool(Exception exception) => exception is PostgresException
    {
        SqlState: PostgresErrorCodes.ReadOnlySqlTransaction or PostgresErrorCodes.AdminShutdown or PostgresErrorCodes.CrashShutdown or PostgresErrorCodes.CannotConnectNow,
    };
}
