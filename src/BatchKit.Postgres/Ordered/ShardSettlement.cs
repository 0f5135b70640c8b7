using BatchKit.Postgres.Receiving;

namespace BatchKit.Postgres.Ordered;

/// <summary>What becomes of a batch of an ordered queue, as the arrays of a statement. What is released has no part in it: its rows never moved.</summary>
internal sealed class ShardSettlement
{
    private readonly List<(QueueMessage Message, Verdict Verdict)> _judged;

    private ShardSettlement(List<(QueueMessage Message, Verdict Verdict)> judged) => _judged = judged;

    /// <summary>True when a statement is enough that deletes.</summary>
    public bool IsAllDone => _judged.TrueForAll(judged => judged.Verdict.Outcome == MessageOutcome.Done);

    public long[] Ids => [.. _judged.Select(judged => judged.Message.Id)];

    public short[] Outcomes => [.. _judged.Select(judged => (short)judged.Verdict.Outcome)];

    public short[] Attempts => [.. _judged.Select(judged => (short)(judged.Message.Attempt - 1))];

    public TimeSpan[] Pauses => [.. _judged.Select(judged => judged.Verdict.Delay)];

    public string?[] Reasons => [.. _judged.Select(judged => judged.Verdict.Error)];

    /// <summary>How many messages wait for an attempt beyond so many, and hold up their keys.</summary>
    public int CountBlocking(int maxAttempts) => _judged.Count(judged => judged.Verdict.Outcome == MessageOutcome.Retry && judged.Message.Attempt >= maxAttempts);

    public static ShardSettlement Of(QueueBatch batch, OutcomePolicy policy)
    {
        var judged = new List<(QueueMessage Message, Verdict Verdict)>(batch.Count);
        HashSet<string>? held = null;
        foreach (var message in batch)
        {
            // A key's order is kept also where a handler says of one message that it failed, and of those behind it nothing.
            if (message.Outcome is null && held is not null && held.Contains(message.Key ?? string.Empty))
                message.Release();
            if (message.Outcome is MessageOutcome.Retry or MessageOutcome.Released)
                (held ??= new HashSet<string>(StringComparer.Ordinal)).Add(message.Key ?? string.Empty);
            if (message.Outcome is not MessageOutcome.Released)
                judged.Add((message, policy.Judge(message)));
        }

        return new ShardSettlement(judged);
    }
}
