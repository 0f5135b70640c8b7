using BatchKit.Postgres.Receiving;
using BatchKit.Postgres.Schema;
using Npgsql;

namespace BatchKit.Postgres.Ordered;

/// <summary>Creates the commands of one ordered queue: its statements with their parameters.</summary>
internal sealed class ShardCommands(Tables tables, QueueEntry queue, PostgresQueueReceiverOptions options, string worker)
{
    private const short NoShard = -1;

    // How long a worker stays with a shard that has work while other shards wait. A change of shards is the more expensive exchange, so it must be the exception.
    private static readonly TimeSpan Turn = TimeSpan.FromMilliseconds(100);

    private readonly ShardStatements _statements = new(tables);
    private readonly string _worker = ErrorText.Of(worker);

    /// <summary>The first command of every batch; it has a result of its own.</summary>
    public NpgsqlBatchCommand Plan() => QueueGuard.CommandFor(tables, queue, $"{ClaimStatements.Plan},");

    public NpgsqlBatchCommand Settle(Claim claim, ShardSettlement settlement)
    {
        var lease = new NpgsqlParameter[] { Value(queue.Id), Value((short)claim.Shard), Value(claim.Token) };
        return settlement.IsAllDone
            ? Create(_statements.SettleDone, [.. lease, Value(settlement.Ids)])
            : Create(
                _statements.SettleMixed,
                [
                    .. lease, Value(settlement.Ids), Value(settlement.Outcomes), Value(settlement.Attempts), Value(settlement.Pauses), Value(settlement.Reasons),
                ]);
    }

    public NpgsqlBatchCommand Release(Claim claim) => Create(_statements.Release, Value(queue.Id), Value((short)claim.Shard), Value(claim.Token));

    public NpgsqlBatchCommand Choose(Claim? held) =>
        Create(_statements.Choose, Value(queue.Id), Value((short?)held?.Shard ?? NoShard), Value(held?.Token ?? 0), Value(Turn));

    public NpgsqlBatchCommand Take() => Create(
        _statements.Take, Value(queue.Id), Value(options.BatchSize), Value((long)options.MaxBatchBytes), Value(options.ClaimTimeLimit), Value(_worker), Value(Turn));

    public NpgsqlBatchCommand Renew(IReadOnlyList<Claim> held) => Create(
        _statements.Renew,
        Value(queue.Id),
        Value(held.Select(claim => (short)claim.Shard).ToArray()),
        Value(held.Select(claim => claim.Token).ToArray()),
        Value(options.ClaimTimeLimit));

    public NpgsqlBatchCommand Upkeep() => Create(
        _statements.Upkeep,
        Value(queue.Id),
        Value(options.MaxAttempts),
        Value(options.Poison == PoisonPolicy.Block),
        Value(options.MaxRetryDelay),
        new NpgsqlParameter<TimeSpan?> { TypedValue = options.DeadRetention, NpgsqlDbType = NpgsqlTypes.NpgsqlDbType.Interval },
        Value(options.ClaimTimeLimit.ToString()));

    private static NpgsqlParameter<T> Value<T>(T value) => new() { TypedValue = value };

    private static NpgsqlBatchCommand Create(string statement, params NpgsqlParameter[] parameters)
    {
        var command = new NpgsqlBatchCommand(statement);
        foreach (var parameter in parameters)
            command.Parameters.Add(parameter);
        return command;
    }
}

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
