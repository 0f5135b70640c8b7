using BatchKit.Postgres.Receiving;

namespace BatchKit.Postgres.Ordered;

/// <summary>The outcomes of a batch of an ordered queue, as the arrays of a statement. Released messages without a delay are left out: their rows never moved.</summary>
internal sealed class ShardSettlement
{
    private readonly List<(QueueMessage Message, Verdict Verdict)> _entries;

    private ShardSettlement(List<(QueueMessage Message, Verdict Verdict)> entries) => _entries = entries;

    /// <summary>True when all messages are to be deleted, so that the simpler statement is enough.</summary>
    public bool IsAllDone => _entries.TrueForAll(entry => entry.Verdict.Outcome == MessageOutcome.Done);

    public long[] Ids => [.. _entries.Select(entry => entry.Message.Id)];

    public short[] Outcomes => [.. _entries.Select(entry => (short)entry.Verdict.Outcome)];

    public short[] Attempts => [.. _entries.Select(entry => (short)(entry.Message.Attempt - 1))];

    public TimeSpan[] Pauses => [.. _entries.Select(entry => entry.Verdict.Delay)];

    public string?[] Reasons => [.. _entries.Select(entry => entry.Verdict.Error)];

    /// <summary>Counts the messages that failed on their last attempt or later, and so block their keys.</summary>
    public int CountBlocking(int maxAttempts) => _entries.Count(entry => entry.Verdict.Outcome == MessageOutcome.Retry && entry.Message.Attempt >= maxAttempts);

    public static ShardSettlement Of(QueueBatch batch, OutcomePolicy policy)
    {
        var entries = new List<(QueueMessage Message, Verdict Verdict)>(batch.Count);
        HashSet<string>? heldKeys = null;
        foreach (var message in batch)
        {
            // Keeps the order of a key when the handler marked a message as failed and did not mark a later one of the same key.
            if (message.Outcome is null && heldKeys is not null && heldKeys.Contains(message.Key ?? string.Empty))
                message.Release();
            if (message.Outcome is MessageOutcome.Retry or MessageOutcome.Released)
                (heldKeys ??= new HashSet<string>(StringComparer.Ordinal)).Add(message.Key ?? string.Empty);
            if (message.Outcome is not MessageOutcome.Released || message.RetryDelay is not null)
                entries.Add((message, policy.Evaluate(message)));
        }

        return new ShardSettlement(entries);
    }
}
