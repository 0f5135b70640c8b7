using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>The claims of one queue, in the database: once for queues without order, once for ordered ones. Without state of its own beside statements and hints; any number of workers at once.</summary>
internal interface IClaimStore
{
    /// <summary>Settles claims as their messages say, and takes the next, in one round trip and one transaction.</summary>
    /// <remarks>Idempotent as far as settling goes: after a lost commit it may be called again, and refuses what is settled already.</remarks>
    Task<ClaimExchange> ExchangeAsync(NpgsqlConnection connection, IReadOnlyList<Claim> settled, ClaimRequest request, CancellationToken cancellationToken);

    /// <summary>Renews claims for another time limit.</summary>
    /// <returns>Those that had ended.</returns>
    Task<IReadOnlyList<Claim>> RenewAsync(NpgsqlConnection connection, IReadOnlyList<Claim> held, CancellationToken cancellationToken);

    /// <summary>Gives back what ended claims held, makes ready what is due, deletes dead rows past their retention, and looks for work; one statement, because idle receivers pay for it each poll.</summary>
    Task<UpkeepReport> UpkeepAsync(NpgsqlConnection connection, CancellationToken cancellationToken);
}
