using System.Net.Sockets;
using Npgsql;

namespace BatchKit.Tool;

/// <summary>Says what went wrong in one line, without secrets.</summary>
internal static class Failure
{
    public static string Describe(Exception exception, string schema) => exception switch
    {
        PostgresException { SqlState: PostgresErrorCodes.UndefinedTable or PostgresErrorCodes.InvalidSchemaName } =>
            $"There are no tables of BatchKit in the schema '{schema}' of this database. Name another with --schema, or another database in the connection.",
        PostgresException { SqlState: PostgresErrorCodes.UndefinedColumn } =>
            $"The tables in the schema '{schema}' are not those that this version knows; is it the tool that is older, or the application?",
        PostgresException { SqlState: PostgresErrorCodes.InvalidPassword or PostgresErrorCodes.InvalidAuthorizationSpecification } refused =>
            $"The server refused the login: {refused.MessageText}.",
        PostgresException refused => $"The server refused: {refused.MessageText} ({refused.SqlState}).",
        NpgsqlException { InnerException: TimeoutException } => "The server did not answer in time.",
        NpgsqlException { InnerException: SocketException reason } unreachable => $"The server can't be reached: {Sentence(unreachable.Message)} {Sentence(reason.Message)}",
        NpgsqlException { InnerException: IOException } => "The connection to the server was lost.",
        _ => exception.Message,
    };

    private static string Sentence(string text) => text.EndsWith('.') ? text : $"{text}.";
}
