using System.Diagnostics;
using BatchKit.Postgres;
using Npgsql;
using WorldTicks.Ledger;

namespace WorldTicks.Hosting;

/// <summary>The PostgreSQL server, for people: makes it ready at the start, and says what is wrong with it.</summary>
internal sealed class TicksServer(NpgsqlDataSource dataSource, LedgerSchema ledger, TicksOptions options)
{
    private static readonly TimeSpan LookAgain = TimeSpan.FromMilliseconds(250);

    /// <summary>Waits for the server as long as was asked for, and creates what tables are missing.</summary>
    /// <exception cref="TicksStartException">There was none, or it does not let us.</exception>
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
                    throw new TicksStartException($"{Explain(exception)}\n{Advise(exception)}");
            }

            await Task.Delay(LookAgain, cancellationToken);
        }
    }

    /// <summary>Says in a sentence, without secrets, why the server did not do what was asked.</summary>
    public string Explain(Exception exception) => exception switch
    {
        PostgresException { SqlState: PostgresErrorCodes.InvalidPassword or PostgresErrorCodes.InvalidAuthorizationSpecification or PostgresErrorCodes.InvalidCatalogName } refused =>
            $"PostgreSQL at {options.Address} does not let us in: {refused.MessageText}.",
        _ when IsAway(exception) => $"PostgreSQL at {options.Address} can't be reached: {Shorten(exception.GetBaseException())}.",
        PostgresException refused => $"PostgreSQL at {options.Address} refused: {refused.MessageText}.",
        _ => $"{Shorten(exception)}.",
    };

    private static string Advise(Exception exception) => IsAway(exception)
        ? "Start one (samples/WorldTicks/README.md says how), or say where it is: --connection, or WORLDTICKS_CONNECTION, which keeps a password off the command line."
        : "--connection or WORLDTICKS_CONNECTION says who and where, --schema which tables.";

    private static bool IsAway(Exception exception) => exception is PostgresException refused ? refused.IsTransient : exception is NpgsqlException or TimeoutException or IOException;

    private static string Shorten(Exception exception) =>
        ((exception as PostgresException)?.MessageText ?? exception.Message).Split('\n')[0].TrimEnd('.', ' ', '\r');
}
