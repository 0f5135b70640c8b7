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

    public NpgsqlBatchCommand Unsettled(Claim claim, long[] ids) =>
        Create(_statements.Unsettled, Value(queue.Id), Value((short)claim.Shard), Value(ids), Value(claim.Batch[0].Attempt - 1));

    public NpgsqlBatchCommand Await() => Create(_statements.Await, Value(queue.Id));

    public NpgsqlBatchCommand Adopt(long token) => Create(_statements.Adopt, Value(queue.Id), Value(token));

    public NpgsqlBatchCommand Take(long token) => Create(
        _statements.Take, Value(queue.Id), Value(options.BatchSize), Value((long)options.MaxBatchBytes), Value(options.ClaimTimeLimit), Value(_worker), Value(Turn), Value(token));

    public NpgsqlBatchCommand Renew(IReadOnlyList<Claim> held) => Create(
        _statements.Renew,
        Value(queue.Id),
        Value(held.Select(claim => (short)claim.Shard).ToArray()),
        Value(held.Select(claim => claim.Token).ToArray()),
        Value(options.ClaimTimeLimit));

    public NpgsqlBatchCommand LockForUpkeep(int claims) => Create(_statements.LockForUpkeep, Value(queue.Id), Value(claims));

    public NpgsqlBatchCommand Upkeep(int claims) => Create(
        _statements.Upkeep,
        Value(queue.Id),
        Value(options.MaxAttempts),
        Value(options.Poison == PoisonPolicy.Block),
        Value(options.MaxRetryDelay),
        new NpgsqlParameter<TimeSpan?> { TypedValue = options.DeadRetention, NpgsqlDbType = NpgsqlTypes.NpgsqlDbType.Interval },
        Value(options.ClaimTimeLimit.ToString()),
        Value(claims));

    private static NpgsqlParameter<T> Value<T>(T value) => new() { TypedValue = value };

    private static NpgsqlBatchCommand Create(string statement, params NpgsqlParameter[] parameters)
    {
        var command = new NpgsqlBatchCommand(statement);
        foreach (var parameter in parameters)
            command.Parameters.Add(parameter);
        return command;
    }
}
