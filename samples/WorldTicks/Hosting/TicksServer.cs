using System.Diagnostics;
using BatchKit.Postgres;
using Npgsql;
using WorldTicks.Ledger;

namespace WorldTicks.Hosting;

/// <summary>Prepares the PostgreSQL server at the start, and describes its faults for the user.</summary>
internal sealed class TicksServer(NpgsqlDataSource dataSource, LedgerSchema ledger, TicksOptions options)
{
    private static readonly TimeSpan LookAgain = TimeSpan.FromMilliseconds(250);

    /// <summary>Waits for the server within the limit of the options, and creates missing tables.</summary>
    /// <exception cref="StartException">The server is unavailable, or refuses the user.</exception>
    public async Task PrepareAsync(CancellationToken cancellationToken)
    {
        var began = Stopwatch.GetTimestamp();
        while (true)
        {
            try
            {
                await PostgresSchema.EnsureSchemaAsync(dataSource, options.Schema, cancellationToken);
                await ledger.EnsureAsync(cancellationToken);
                return;
            }
            catch (Exception exception) when (exception is NpgsqlException or TimeoutException or IOException or InvalidOperationException)
            {
                if (!IsAway(exception) || Stopwatch.GetElapsedTime(began) >= options.Patience)
                    throw new StartException($"{Explain(exception)}\n{Advise(exception)}");
            }

            await Task.Delay(LookAgain, cancellationToken);
        }
    }

    /// <summary>Describes an error of the server in one sentence, without secrets.</summary>
    public string Explain(Exception exception) => exception switch
    {
        PostgresException { SqlState: PostgresErrorCodes.InvalidPassword or PostgresErrorCodes.InvalidAuthorizationSpecification or PostgresErrorCodes.InvalidCatalogName } refused =>
            $"PostgreSQL at {options.Address} refused the connection: {refused.MessageText}.",
        _ when IsAway(exception) => $"PostgreSQL at {options.Address} can't be reached: {Shorten(exception.GetBaseException())}.",
        PostgresException refused => $"PostgreSQL at {options.Address} refused: {refused.MessageText}.",
        _ => $"{Shorten(exception)}.",
    };

    private static string Advise(Exception exception) => IsAway(exception)
        ? "Start one (see samples/WorldTicks/README.md), or set its address by --connection or WORLDTICKS_CONNECTION, which keeps a password off the command line."
        : "Set server and user by --connection or WORLDTICKS_CONNECTION, and the schema by --schema.";

    private static bool IsAway(Exception exception) => exception is PostgresException refused ? refused.IsTransient : exception is NpgsqlException or TimeoutException or IOException;

    private static string Shorten(Exception exception) =>
        ((exception as PostgresException)?.MessageText ?? exception.Message).Split('\n')[0].TrimEnd('.', ' ', '\r');
}
