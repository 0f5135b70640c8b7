using System.CommandLine;
using System.Net.Sockets;
using System.Text.Json.Serialization.Metadata;
using BatchKit.Diagnostics;
using BatchKit.Postgres;
using BatchKit.Tool.Output;
using Npgsql;
using Spectre.Console;

namespace BatchKit.Tool.Commands;

/// <summary>One run of a command: its database, its terminal, and how it ends.</summary>
internal sealed class Session
{
    // What is piped into a file or another program has no width; this one keeps a line a line.
    private const int WidthWithoutTerminal = 160;

    private Session(ParseResult parsed, PostgresQueueAdmin admin, string schema)
    {
        Parsed = parsed;
        Admin = admin;
        Schema = schema;
        Out = CreateConsole();
    }

    public ParseResult Parsed { get; }

    public PostgresQueueAdmin Admin { get; }

    public string Schema { get; }

    public IAnsiConsole Out { get; }

    public bool WritesJson => Parsed.GetValue(SharedOptions.Json);

    /// <summary>Runs a command against the database that the command line names, and says in one line what went wrong.</summary>
    public static async Task<int> RunAsync(ParseResult parsed, Func<Session, CancellationToken, Task<int>> command, CancellationToken cancellationToken)
    {
        var schema = parsed.GetRequiredValue(SharedOptions.Schema);
        try
        {
            await using var dataSource = Database.Open(parsed.GetValue(SharedOptions.Connection));
            return await command(new Session(parsed, CreateAdmin(dataSource, schema), schema), cancellationToken);
        }
        catch (OperationCanceledException) when (cancellationToken.IsCancellationRequested)
        {
            return ExitCodes.Interrupted;
        }
        catch (UsageException exception)
        {
            Complain(FailureText.MessageOf(exception));
            return ExitCodes.Usage;
        }
        catch (Exception exception) when (exception is NpgsqlException or KeyNotFoundException or IOException or TimeoutException)
        {
            Complain(Failure.Describe(exception, schema));
            return ExitCodes.Failed;
        }
    }

    public static void Complain(string line) => Console.Error.WriteLine(PrintableText.Of(line));

    public void Say(string line) => Out.Profile.Out.Writer.WriteLine(PrintableText.Of(line));

    public void Write<T>(T value, JsonTypeInfo<T> type) => Out.Profile.Out.Writer.WriteLine(System.Text.Json.JsonSerializer.Serialize(value, type));

    /// <summary>Asks on the terminal, unless <c>--yes</c> was given.</summary>
    /// <exception cref="UsageException">There is no terminal to ask on.</exception>
    public async Task<bool> ConfirmAsync(string queue, Func<QueueCounts, string> question, CancellationToken cancellationToken)
    {
        if (Parsed.GetValue(SharedOptions.Yes))
            return true;
        if (Console.IsInputRedirected)
            throw new UsageException("There is no terminal to ask on whether you are sure: give --yes.");
        var counts = (await Admin.ListAsync(cancellationToken)).FirstOrDefault(counts => counts.Queue == queue)
            ?? throw new KeyNotFoundException($"There is no queue '{queue}' in the schema '{Schema}'. Check both names; a queue is created by its first message, or when its receiver starts.");
        await Console.Error.WriteAsync($"{PrintableText.Of(question(counts))} [y/N] ");
        var answer = await Task.Run(Console.ReadLine, cancellationToken).WaitAsync(cancellationToken);
        if (answer?.Trim() is "y" or "Y" or "yes")
            return true;
        Complain("Nothing was changed.");
        return false;
    }

    private static IAnsiConsole CreateConsole()
    {
        if (!Console.IsOutputRedirected)
            return AnsiConsole.Console;
        var plain = AnsiConsole.Create(new AnsiConsoleSettings { Ansi = AnsiSupport.No, ColorSystem = ColorSystemSupport.NoColors });
        plain.Profile.Width = WidthWithoutTerminal;
        return plain;
    }

    private static PostgresQueueAdmin CreateAdmin(NpgsqlDataSource dataSource, string schema)
    {
        try
        {
            return new PostgresQueueAdmin(dataSource, schema);
        }
        catch (ArgumentException exception)
        {
            throw new UsageException(FailureText.MessageOf(exception));
        }
    }
}

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
        NpgsqlException { InnerException: SocketException reason } unreachable => $"The server can't be reached: {Sentence(FailureText.MessageOf(unreachable))} {Sentence(FailureText.MessageOf(reason))}",
        NpgsqlException { InnerException: IOException } => "The connection to the server was lost.",
        _ => FailureText.MessageOf(exception),
    };

    private static string Sentence(string text) => text.EndsWith('.') ? text : $"{text}.";
}
