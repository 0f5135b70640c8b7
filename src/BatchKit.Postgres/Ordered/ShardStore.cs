using BatchKit.Postgres.Receiving;
using BatchKit.Postgres.Schema;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres.Ordered;

/// <summary>The claims of an ordered queue. A claim is the lease of a shard with a batch of its messages.</summary>
internal sealed class ShardStore(Tables tables, QueueEntry queue, PostgresQueueReceiverOptions options, string worker, ILogger logger) : IClaimStore
{
    // The batch of a chosen shard is empty when its previous holder completed the last messages meanwhile, and when all messages that the exchange looked at were blocked. These are then parked, and the next choice
    // looks at others.
    private const int MaxChoices = 1000;

    private readonly ShardCommands _commands = new(tables, queue, options, worker);
    private readonly OutcomePolicy _policy = new(options);
    private readonly UpkeepLimit _upkeepLimit = new(options.CommandTimeout);

    // Claims for several workers would be a statement for each, so that they gain nothing by sharing.
    public int MostClaims => 1;

    public async Task<ClaimExchange> ExchangeAsync(NpgsqlConnection connection, IReadOnlyList<Claim> settled, ClaimRequest request, CancellationToken cancellationToken)
    {
        // What the lost attempt settled was committed together with the lease that it took.
        if (request.IsRepeat && await AdoptAsync(connection, request.Token, cancellationToken).ConfigureAwait(false) is { } adopted)
            return new ClaimExchange([adopted], Refused: []);
        var refused = new List<Claim>();
        var taken = new List<Claim>(1);
        var hasChosen = await ExchangeOnceAsync(connection, settled, request, refused, taken, cancellationToken).ConfigureAwait(false);
        for (var choices = 1; hasChosen && taken.Count == 0 && choices < MaxChoices; choices++)
            hasChosen = await ExchangeOnceAsync(connection, [], request, refused, taken, cancellationToken).ConfigureAwait(false);
        return new ClaimExchange(
            taken, request.IsRepeat ? await RepeatedSettlement.FindLostAsync(connection, refused, _commands.Unsettled, cancellationToken).ConfigureAwait(false) : refused);
    }

    // Until the transaction ended, no one could renew the lease of the shard.
    public Task<(ulong Transaction, bool IsSettled)> SettleAsync(NpgsqlTransaction transaction, Claim claim, CancellationToken cancellationToken) =>
        throw new NotSupportedException($"Queue {queue.Name} is ordered ({nameof(options.Shards)} is {queue.Shards}). Only a queue without order is settled in a transaction of its handler.");

    public async Task<IReadOnlyList<Claim>> RenewAsync(NpgsqlConnection connection, IReadOnlyList<Claim> held, CancellationToken cancellationToken)
    {
        if (held.Count == 0)
            return [];
        var batch = CreateBatch(connection);
        await using (batch.ConfigureAwait(false))
        {
            batch.BatchCommands.Add(_commands.Renew(held));
            var reader = await ExecuteAsync(batch, cancellationToken).ConfigureAwait(false);
            await using (reader.ConfigureAwait(false))
            {
                // By shard and epoch: this process may hold a shard again whose earlier lease it has lost.
                var renewed = new HashSet<(int Shard, long Epoch)>();
                while (await reader.ReadAsync(cancellationToken).ConfigureAwait(false))
                    renewed.Add((reader.GetInt16(0), reader.GetInt64(1)));
                await EndAsync(reader, cancellationToken).ConfigureAwait(false);
                return [.. held.Where(claim => !renewed.Contains((claim.Shard, claim.Token)))];
            }
        }
    }

    public Task<UpkeepReport> UpkeepAsync(NpgsqlConnection connection, CancellationToken cancellationToken) => _upkeepLimit.ApplyAsync(UpkeepOnceAsync(connection, cancellationToken));

    private async Task<UpkeepReport> UpkeepOnceAsync(NpgsqlConnection connection, CancellationToken cancellationToken)
    {
        var batch = CreateBatch(connection);
        batch.Timeout = _upkeepLimit.TimeoutSeconds;
        await using (batch.ConfigureAwait(false))
        {
            batch.BatchCommands.Add(_commands.LockForUpkeep(_upkeepLimit.Claims));
            batch.BatchCommands.Add(_commands.Upkeep(_upkeepLimit.Claims));
            var reader = await ExecuteAsync(batch, cancellationToken).ConfigureAwait(false);
            await using (reader.ConfigureAwait(false))
            {
                await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
                await reader.ReadAsync(cancellationToken).ConfigureAwait(false);
                TimeSpan? nextDue = await reader.IsDBNullAsync(3, cancellationToken).ConfigureAwait(false) ? null : reader.GetTimeSpan(3);
                var report = new UpkeepReport(reader.GetBoolean(0), (int)reader.GetInt64(1), (int)reader.GetInt64(2), nextDue);
                await EndAsync(reader, cancellationToken).ConfigureAwait(false);
                return report;
            }
        }
    }

    private async ValueTask<Claim?> AdoptAsync(NpgsqlConnection connection, long token, CancellationToken cancellationToken)
    {
        var batch = CreateBatch(connection);
        await using (batch.ConfigureAwait(false))
        {
            batch.BatchCommands.Add(_commands.Await());
            batch.BatchCommands.Add(_commands.Adopt(token));
            batch.BatchCommands.Add(_commands.Take(token));
            var reader = await ExecuteAsync(batch, cancellationToken).ConfigureAwait(false);
            await using (reader.ConfigureAwait(false))
            {
                await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
                var taken = new List<Claim>(1);
                await ReadTakenAsync(reader, taken, isWoken: true, cancellationToken).ConfigureAwait(false);
                await EndAsync(reader, cancellationToken).ConfigureAwait(false);
                return taken.SingleOrDefault();
            }
        }
    }

    // True when a shard was chosen.
    private async ValueTask<bool> ExchangeOnceAsync(
        NpgsqlConnection connection, IReadOnlyList<Claim> settled, ClaimRequest request, List<Claim> refused, List<Claim> taken, CancellationToken cancellationToken)
    {
        var takes = request.Claims > 0;
        if (settled.Count == 0 && !takes)
            return false;
        _policy.Fit(connection);
        var batch = CreateBatch(connection);
        await using (batch.ConfigureAwait(false))
        {
            AddCommands(batch, settled, request);
            var reader = await ExecuteAsync(batch, cancellationToken).ConfigureAwait(false);
            await using (reader.ConfigureAwait(false))
            {
                foreach (var claim in settled)
                {
                    await reader.ReadAsync(cancellationToken).ConfigureAwait(false);
                    if (reader.GetInt64(0) == 0)
                        refused.Add(claim);
                    await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
                }

                // A worker with nothing to settle was just woken. Other shards may have work too, each for one worker, while the other workers sleep.
                var hasChosen = takes && await ReadTakenAsync(reader, taken, isWoken: settled.Count == 0, cancellationToken).ConfigureAwait(false);
                await EndAsync(reader, cancellationToken).ConfigureAwait(false);
                return hasChosen;
            }
        }
    }

    private void AddCommands(NpgsqlBatch batch, IReadOnlyList<Claim> settled, ClaimRequest request)
    {
        var takes = request.Claims > 0;
        var blocking = 0;
        for (var index = 0; index < settled.Count; index++)
        {
            var settlement = ShardSettlement.Of(settled[index].Batch, _policy);
            blocking += settlement.CountBlocking(options.MaxAttempts);
            batch.BatchCommands.Add(_commands.Settle(settled[index], settlement));
            if (!takes || index < settled.Count - 1)
                batch.BatchCommands.Add(_commands.Release(settled[index]));
        }

        if (blocking > 0)
            Log.KeysBlocked(logger, queue.Name, blocking, options.MaxAttempts, options.MaxRetryDelay);
        if (!takes)
            return;
        batch.BatchCommands.Add(_commands.Choose(settled.Count > 0 ? settled[^1] : null));
        batch.BatchCommands.Add(_commands.Take(request.Token));
    }

    private async ValueTask<bool> ReadTakenAsync(NpgsqlDataReader reader, List<Claim> taken, bool isWoken, CancellationToken cancellationToken)
    {
        await reader.ReadAsync(cancellationToken).ConfigureAwait(false);
        var hasChosen = reader.GetString(0).Length > 0;
        await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
        if (await ShardBatchReader.ReadAsync(this, reader, queue.Name, isWoken, OutcomePolicy.UnreadableDelay(options), cancellationToken).ConfigureAwait(false) is { } claim)
            taken.Add(claim);
        return hasChosen;
    }

    private NpgsqlBatch CreateBatch(NpgsqlConnection connection) =>
        new(connection) { Timeout = WholeSeconds.Of(options.CommandTimeout), BatchCommands = { _commands.Plan() } };

    private async ValueTask<NpgsqlDataReader> ExecuteAsync(NpgsqlBatch batch, CancellationToken cancellationToken)
    {
        if (options.UsePreparedStatements)
            await batch.PrepareAsync(cancellationToken).ConfigureAwait(false);
        var reader = await batch.ExecuteReaderAsync(cancellationToken).ConfigureAwait(false);
        await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
        return reader;
    }

    // An error of the commit is reported after the last row.
    private static Task<bool> EndAsync(NpgsqlDataReader reader, CancellationToken cancellationToken) => reader.NextResultAsync(cancellationToken);
}

/// <summary>Reads the rows that <see cref="ShardStatements.Take"/> returns.</summary>
internal static class ShardBatchReader
{
    /// <summary>Reads a batch; returns null when there are no rows.</summary>
    public static async ValueTask<Claim?> ReadAsync(IClaimStore store, NpgsqlDataReader reader, string queue, bool hasMore, TimeSpan unreadableDelay, CancellationToken cancellationToken)
    {
        var (shard, epoch) = (0, 0L);
        var messages = new List<QueueMessage>();
        HashSet<string>? waitingKeys = null;
        var handle = OutputHandle.Named(queue);
        while (await reader.ReadAsync(cancellationToken).ConfigureAwait(false))
        {
            (shard, epoch) = (reader.GetInt16(0), reader.GetInt64(1));
            var message = ReadMessage(reader, handle, unreadableDelay);
            messages.Add(message);
            // Later messages of the same key must not overtake a message that waits for a process that can read it.
            if (message is { IsWithheld: true, Outcome: MessageOutcome.Released })
                (waitingKeys ??= new HashSet<string>(StringComparer.Ordinal)).Add(message.Key ?? string.Empty);
            else if (waitingKeys is not null && waitingKeys.Contains(message.Key ?? string.Empty))
                message.Withhold(delay: null);
        }

        return messages.Count == 0 ? null : new Claim(store, epoch, shard, new QueueBatch([.. messages])) { HasMore = hasMore };
    }

    private static QueueMessage ReadMessage(NpgsqlDataReader reader, OutputHandle queue, TimeSpan unreadableDelay)
    {
        var stored = reader.IsDBNull(7) ? null : reader.GetFieldValue<byte[]>(7);
        var header = StoredHeader.Read(stored, out var trace, out var fault);
        var message = new QueueMessage(
            queue,
            reader.GetInt64(2),
            reader.GetInt16(3) + 1,
            -reader.GetInt16(4),
            reader.GetFieldValue<DateTimeOffset>(5),
            reader.IsDBNull(6) ? null : reader.GetString(6),
            header,
            reader.GetFieldValue<byte[]>(8))
        { Trace = trace, StoredHeader = stored };
        if (fault is not null)
            StoredHeader.Withhold(message, stored, fault, unreadableDelay);
        return message;
    }
}

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
