using BatchKit.Postgres.Receiving;
using BatchKit.Postgres.Schema;
using Npgsql;

namespace BatchKit.Postgres.Ordered;

/// <summary>The statements of one ordered queue with their parameters, ready to be executed.</summary>
internal sealed class ShardCommands(Tables tables, QueueEntry queue, PostgresQueueReceiverOptions options, string worker)
{
    private const short NoShard = -1;

    // How long a worker stays with a shard that has work while others wait: long enough that a change of shards, the dearer exchange, is the exception.
    private static readonly TimeSpan Turn = TimeSpan.FromMilliseconds(100);

    private readonly ShardStatements _statements = new(tables);
    private readonly string _worker = ErrorText.Of(worker);

    /// <summary>The first of every batch; it has a result of its own.</summary>
    public static NpgsqlBatchCommand Plan() => new(ClaimStatements.Plan);

    public NpgsqlBatchCommand Settle(Claim claim, ShardSettlement settlement)
    {
        var lease = new NpgsqlParameter[] { Value(queue.Id), Value((short)claim.Shard), Value(claim.Token) };
        return settlement.IsAllDone
            ? Make(_statements.SettleDone, [.. lease, Value(settlement.Ids)])
            : Make(
                _statements.SettleMixed,
                [
                    .. lease, Value(settlement.Ids), Value(settlement.Outcomes), Value(settlement.Attempts), Value(settlement.Pauses), Value(settlement.Reasons),
                ]);
    }

    public NpgsqlBatchCommand Release(Claim claim) => Make(_statements.Release, Value(queue.Id), Value((short)claim.Shard), Value(claim.Token));

    public NpgsqlBatchCommand Choose(Claim? inHand) =>
        Make(_statements.Choose, Value(queue.Id), Value((short?)inHand?.Shard ?? NoShard), Value(inHand?.Token ?? 0), Value(Turn));

    public NpgsqlBatchCommand Take() => Make(
        _statements.Take, Value(queue.Id), Value(options.BatchSize), Value((long)options.MaxBatchBytes), Value(options.ClaimTimeLimit), Value(_worker), Value(Turn));

    public NpgsqlBatchCommand Renew(IReadOnlyList<Claim> held) => Make(
        _statements.Renew,
        Value(queue.Id),
        Value(held.Select(claim => (short)claim.Shard).ToArray()),
        Value(held.Select(claim => claim.Token).ToArray()),
        Value(options.ClaimTimeLimit));

    public NpgsqlBatchCommand Upkeep() => Make(
        _statements.Upkeep,
        Value(queue.Id),
        Value(options.MaxAttempts),
        Value(options.Poison == PoisonPolicy.Block),
        Value(options.MaxRetryDelay),
        new NpgsqlParameter<TimeSpan?> { TypedValue = options.DeadRetention, NpgsqlDbType = NpgsqlTypes.NpgsqlDbType.Interval },
        Value(options.ClaimTimeLimit.ToString()));

    private static NpgsqlParameter<T> Value<T>(T value) => new() { TypedValue = value };

    private static NpgsqlBatchCommand Make(string statement, params NpgsqlParameter[] parameters)
    {
        var command = new NpgsqlBatchCommand(statement);
        foreach (var parameter in parameters)
            command.Parameters.Add(parameter);
        return command;
    }
}

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
