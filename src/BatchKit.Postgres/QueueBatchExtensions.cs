using BatchKit.Postgres.Receiving;
using Npgsql;

namespace BatchKit.Postgres;

/// <summary>What the handler of a queue may do with its batch as a whole.</summary>
public static class QueueBatchExtensions
{
    /// <summary>Settles the batch in a transaction of yours: what the handler writes to the database and the end of its messages are committed together, or neither.</summary>
    /// <remarks>
    /// <para>Messages that are marked with <see cref="QueueMessage.Retry"/> or <see cref="QueueMessage.Refuse"/> are settled as that; all others are completed. Marks that are made later, and a second call in the same transaction, have no effect.
    /// When it is rolled back, you may settle the batch in another one; otherwise its completed messages are retried.</para>
    /// <para>The transaction has to be one of the database with the queue's tables, and has to end before the handler does: messages whose transaction is open then are left to their claim's end. While it is open, the claim does not
    /// end. In one that is REPEATABLE READ or SERIALIZABLE call it first, before any other statement: a renewal changes the claim, and such a transaction can't settle what was changed since it began. With Entity Framework, pass <c>(NpgsqlTransaction)context.Database.CurrentTransaction!.GetDbTransaction()</c>.</para>
    /// </remarks>
    /// <param name="batch">The batch that the handler got.</param>
    /// <param name="transaction">The transaction, which you commit.</param>
    /// <param name="cancellationToken">Cancels the statement, after which the transaction can only be rolled back.</param>
    /// <exception cref="ArgumentException">The batch is not one that a receiver gave to its handler.</exception>
    /// <exception cref="InvalidOperationException">The claim has ended, or the handler was given up, so that another worker may handle the messages: roll back. Or the transaction has ended.</exception>
    /// <exception cref="NotSupportedException">The queue is ordered.</exception>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses; or the claim was renewed since the first statement of a transaction that is REPEATABLE READ or SERIALIZABLE.</exception>
    public static async Task SettleAsync(this IReadOnlyList<QueueMessage> batch, NpgsqlTransaction transaction, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(batch);
        ArgumentNullException.ThrowIfNull(transaction);
        if (batch is not QueueBatch { Claim: { } claim })
            throw new ArgumentException("It must be the batch that a handler got from a receiver, unchanged.", nameof(batch));
        if (transaction.Connection is null)
            throw new InvalidOperationException("The transaction has ended.");
        ThrowIfGivenUp(claim);
        MessageOutcome?[] outcomes = [.. claim.Batch.Select(static message => message.Outcome)];
        var (id, isSettled) = await SettleAsync(claim, transaction, cancellationToken).ConfigureAwait(false);
        if (isSettled)
            claim.Transaction = new HandlerTransaction(id, outcomes);
        else if (claim.Transaction?.Id != id)
            throw new InvalidOperationException(
                $"The claim of these messages has ended, and another worker may handle them: roll the transaction back. {nameof(PostgresQueueReceiverOptions.ClaimTimeLimit)} is how long a claim lasts that is not renewed.");
        ThrowIfGivenUp(claim);
    }

    private static void ThrowIfGivenUp(Claim claim)
    {
        if (claim.IsGivenUp)
            throw new InvalidOperationException("The handler was given up because it did not end when its token was cancelled, and its messages are handled again: roll the transaction back.");
    }

    private static async Task<(ulong Transaction, bool IsSettled)> SettleAsync(Claim claim, NpgsqlTransaction transaction, CancellationToken cancellationToken)
    {
        try
        {
            return await claim.Store.SettleAsync(transaction, claim, cancellationToken).ConfigureAwait(false);
        }
        catch (PostgresException exception) when (exception.SqlState == PostgresErrorCodes.SerializationFailure)
        {
            // Each attempt of a handler that takes longer than the pause of renewal would fail like this, until its messages are dead.
            throw new NpgsqlException(
                $"{ServerFault.Describe(exception)} A transaction that is REPEATABLE READ or SERIALIZABLE can't settle a claim that was renewed since its first statement: call {nameof(SettleAsync)} first in it.", exception);
        }
    }
}
