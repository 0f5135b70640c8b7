using System.Net.Sockets;
using System.Security.Authentication;
using BatchKit.Diagnostics;
using BatchKit.Postgres.Schema;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>Describes an error of the server in a human-readable sentence, and decides whether the pool's connections are still usable.</summary>
internal static class ServerFault
{
    /// <summary>What to change when prepared statements are missing or exist already.</summary>
    public const string PoolerAdvice =
        $"A pooler in transaction mode, such as PgBouncer, gives each transaction another session, without the statements that were prepared: set {nameof(PostgresOptions.UsePreparedStatements)} to false, and leave 'Max Auto Prepare' of the connection string at 0.";

    private const string AddressAdvice = "Check that the server runs, and its address in the connection string.";

    private const string CertificateAdvice = "Check the server's certificate, and SSL Mode and Root Certificate in the connection string.";

    private const string IdentityAdvice = "Check the database and its user in the connection string.";

    // Npgsql has no name for it.
    private const string IdleSessionTimeout = "57P05";

    // Invalid authorization, unknown database, unknown schema.
    private static readonly string[] IdentityClasses = ["28", "3D", "3F"];

    /// <summary>What went wrong, in one line without details, and what to change where that is known.</summary>
    public static string Describe(Exception exception) => exception switch
    {
        PostgresException { SqlState: QueueGuard.Lost } => "The server knows the queue by another number: its tables were dropped, restored or made again. The queue is looked up again.",
        // Not Message, which also has lines with details that may quote a row's content.
        PostgresException { MessageText: var text, SqlState: var state } => $"The server said: {text} (SQLSTATE {state}).{(AdviceFor(state) is { } advice ? $" {advice}" : string.Empty)}",
        OperationCanceledException => "The server did not answer in time.",
        NpgsqlException { InnerException: not null } => $"{Chain(exception)}{(AdviceFor(exception) is { } advice ? $" {advice}" : string.Empty)}",
        _ => FailureText.MessageOf(exception),
    };

    // An error of Npgsql with what it wraps, each as a sentence. With several hosts that is an error for each.
    private static string Chain(Exception exception) => exception switch
    {
        PostgresException or OperationCanceledException => Describe(exception),
        AggregateException { InnerExceptions: var all } => string.Join(' ', all.Select(Chain)),
        NpgsqlException { InnerException: { } inner } when FailureText.MessageOf(inner) != FailureText.MessageOf(exception) => $"{FailureText.MessageOf(exception).TrimEnd('.')}: {Chain(inner)}",
        _ => $"{FailureText.MessageOf(exception).TrimEnd('.')}.",
    };

    // An exhausted pool is a timeout too, and its text says what to change.
    private static string? AdviceFor(Exception exception) =>
        FailureText.Find<PostgresException>(exception) is not null ? null
        : FailureText.Find<AuthenticationException>(exception) is not null ? CertificateAdvice
        : FailureText.CausesOf(exception).Any(static cause => cause is SocketException or IOException or TimeoutException) && !IsPoolExhausted(exception) ? AddressAdvice
        : null;

    // What to change, where the state shows it.
    private static string? AdviceFor(string state) => state switch
    {
        PostgresErrorCodes.InvalidSqlStatementName or PostgresErrorCodes.DuplicatePreparedStatement => PoolerAdvice,
        PostgresErrorCodes.DiskFull => "Give the server more disk space.",
        PostgresErrorCodes.LockNotAvailable => "The setting lock_timeout of the server, the database or the user is too short, or another transaction keeps a lock for too long: pg_locks shows which.",
        PostgresErrorCodes.QueryCanceled => "Unless someone cancelled it, the setting statement_timeout of the server, the database or the user is too short.",
        IdleSessionTimeout => "Set idle_session_timeout to 0 for the user, because pools keep idle connections.",
        PostgresErrorCodes.TooManyConnections => "Raise max_connections, or lower 'Maximum Pool Size' of the connection strings.",
        PostgresErrorCodes.InsufficientPrivilege => IdentityAdvice,
        _ => Array.Exists(IdentityClasses, begin => state.StartsWith(begin, StringComparison.Ordinal)) ? IdentityAdvice : null,
    };

    /// <summary>True when no connection of the pool became free in time. Npgsql has no exception type for it.</summary>
    public static bool IsPoolExhausted(Exception exception) =>
        exception is NpgsqlException { InnerException: TimeoutException } && FailureText.MessageOf(exception).Contains("pool", StringComparison.OrdinalIgnoreCase);

    /// <summary>
    /// True when the remembered schema and queues are out of date and must be looked up again: the tables are gone, or a migration has changed them so that this version's statements no longer
    /// fit.
    /// </summary>
    public static bool LosesQueue(Exception exception) => exception is PostgresException
    {
        SqlState: QueueGuard.Lost or PostgresErrorCodes.UndefinedTable or PostgresErrorCodes.InvalidSchemaName
            or PostgresErrorCodes.UndefinedColumn or PostgresErrorCodes.UndefinedFunction or PostgresErrorCodes.DatatypeMismatch or PostgresErrorCodes.NotNullViolation,
    };

    /// <summary>
    /// True when the server does not store what was sent because of its content: a character that the database's encoding lacks, a value outside a type's range, a row above a limit, or one that a check of the
    /// administrator's refuses. A check looks at its row alone, so the same row is refused again. The error for a missing partition has the same state and names no check.
    /// </summary>
    public static bool RefusesContent(PostgresException exception) =>
        exception.SqlState is PostgresErrorCodes.ProgramLimitExceeded
        || IsCheck(exception)
        || (exception.SqlState.StartsWith("22", StringComparison.Ordinal) && exception.SqlState is not QueueGuard.Lost);

    /// <summary>True when a named check constraint refuses a row.</summary>
    public static bool IsCheck(PostgresException exception) => exception is { SqlState: PostgresErrorCodes.CheckViolation, ConstraintName: not null };

    /// <summary>True when the server can't be reached, or is not ready for statements that write.</summary>
    public static bool IsOutage(Exception exception) => exception is NpgsqlException and not PostgresException || SpoilsPool(exception);

    /// <summary>True when there is no connection: an outage, or the server lets this user in no more, has no such database, or has no room for connections.</summary>
    public static bool IsDisconnected(Exception exception) => IsOutage(exception) || (exception is PostgresException { SqlState: var state }
        && (state is PostgresErrorCodes.TooManyConnections || state.StartsWith("28", StringComparison.Ordinal) || state.StartsWith("3D", StringComparison.Ordinal)));

    /// <summary>True when the pool's other connections lead to a server that is read-only or shutting down, as after a fail-over, so that new ones are needed.</summary>
    public static bool SpoilsPool(Exception exception) => exception is PostgresException
    {
        SqlState: PostgresErrorCodes.ReadOnlySqlTransaction or PostgresErrorCodes.AdminShutdown or PostgresErrorCodes.CrashShutdown or PostgresErrorCodes.CannotConnectNow,
    };
}
