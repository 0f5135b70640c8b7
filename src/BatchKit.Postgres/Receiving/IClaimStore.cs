using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>The claims of one queue in the database, implemented for queues without order and for ordered ones. It keeps no state except statements and hints. Thread-safe.</summary>
internal interface IClaimStore
{
    /// <summary>Settles claims by the outcomes of their messages, and claims the next messages, in one round trip and one transaction.</summary>
    /// <remarks>Settling is idempotent: when it is unknown whether the transaction was committed, call it again; it refuses claims that are settled already.</remarks>
    Task<ClaimExchange> ExchangeAsync(NpgsqlConnection connection, IReadOnlyList<Claim> settled, ClaimRequest request, CancellationToken cancellationToken);

    /// <summary>Renews claims for another time limit.</summary>
    /// <returns>The claims that had ended.</returns>
    Task<IReadOnlyList<Claim>> RenewAsync(NpgsqlConnection connection, IReadOnlyList<Claim> held, CancellationToken cancellationToken);

    /// <summary>Gives back the messages of ended claims, makes due messages ready, deletes dead rows past their retention, and looks for work; in one statement, because an idle receiver runs it at each poll.</summary>
    Task<UpkeepReport> UpkeepAsync(NpgsqlConnection connection, CancellationToken cancellationToken);
}

/// <summary>A worker's time-limited hold on a batch of messages. The outcomes are marked on the messages.</summary>
internal sealed class Claim(long token, int shard, QueueBatch batch)
{
    /// <summary>The row in <c>claims</c> for a queue without order; the shard's epoch for an ordered one. A statement with an old token changes nothing.</summary>
    public long Token { get; } = token;

    /// <summary>The shard, in an ordered queue; -1 otherwise.</summary>
    public int Shard { get; } = shard;

    /// <summary>All messages, which are settled together.</summary>
    public QueueBatch Batch { get; } = batch;

    /// <summary>The messages for the handler; null when it gets none. The others are marked already.</summary>
    public QueueBatch? Readable { get; } = batch.WithoutWithheld();

    /// <summary>True when there are probably more messages, for another worker to claim.</summary>
    public bool HasMore { get; init; }
}

/// <summary>A worker's request for claims.</summary>
/// <param name="Claims">The most claims; 0 only settles. More than 1 is for prefetching, which only queues without order support.</param>
/// <param name="RetriesFirst">True claims a failed message that is due, in a batch of its own, before fresh ones. Workers alternate, so that neither starves.</param>
internal readonly record struct ClaimRequest(int Claims, bool RetriesFirst);

/// <summary>The result of an exchange.</summary>
/// <param name="Taken">The new claims; empty when there is no work.</param>
/// <param name="Refused">The claims that could not be settled because they had ended; other workers handle their messages.</param>
internal readonly record struct ClaimExchange(IReadOnlyList<Claim> Taken, IReadOnlyList<Claim> Refused);

/// <summary>The result of an upkeep.</summary>
/// <param name="HasWork">True when a message can be claimed now.</param>
/// <param name="Returned">How many messages of ended claims went back into the queue.</param>
/// <param name="Buried">How many messages of ended claims went to the dead table, because it was their last attempt.</param>
/// <param name="NextDue">The time until the next delayed message is due; null when there is none.</param>
internal readonly record struct UpkeepReport(bool HasWork, int Returned, int Buried, TimeSpan? NextDue);
