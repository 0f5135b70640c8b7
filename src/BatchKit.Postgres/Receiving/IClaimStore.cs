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

/// <summary>A worker's time-limited hold on a batch of messages. What became of them is said on the messages themselves.</summary>
internal sealed class Claim(long token, int shard, QueueBatch batch)
{
    /// <summary>The row in <c>claims</c> for a queue without order; the shard's epoch for an ordered one. What bears an old one touches nothing.</summary>
    public long Token { get; } = token;

    /// <summary>The shard, in an ordered queue; -1 otherwise.</summary>
    public int Shard { get; } = shard;

    public QueueBatch Batch { get; } = batch;

    /// <summary>True when there seems to be more for another worker to claim.</summary>
    public bool HasMore { get; init; }
}

/// <summary>What a worker asks for.</summary>
/// <param name="Claims">How many claims at most; 0 only settles. More than 1 is for prefetching, and for queues without order.</param>
/// <param name="RetriesFirst">True takes a message that has failed before and is due, alone, before fresh ones. Who claims changes between both, so that neither starves.</param>
internal readonly record struct ClaimRequest(int Claims, bool RetriesFirst);

/// <summary>What an exchange gave.</summary>
/// <param name="Taken">The new claims; empty when there is nothing to do.</param>
/// <param name="Refused">Of the claims to settle, those that had ended: their messages are another worker's.</param>
internal readonly record struct ClaimExchange(IReadOnlyList<Claim> Taken, IReadOnlyList<Claim> Refused);

/// <summary>What an upkeep found.</summary>
/// <param name="HasWork">There is something to claim now.</param>
/// <param name="Returned">Messages that came back from claims that had ended.</param>
/// <param name="Buried">Messages that went to the dead table, because their last attempt never ended.</param>
/// <param name="NextDue">How long until a delayed message is due; null when none waits.</param>
internal readonly record struct UpkeepReport(bool HasWork, int Returned, int Buried, TimeSpan? NextDue);
