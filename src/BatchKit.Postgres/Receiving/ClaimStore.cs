using BatchKit.Postgres.Schema;
using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>The claims of a queue without order.</summary>
internal sealed class ClaimStore(Tables tables, QueueEntry queue, PostgresQueueReceiverOptions options, string worker, TimeProvider? timeProvider = null, ClaimFloor? floor = null) : IClaimStore
{
    // About ten thousand dead entries. Below that, looking from the beginning costs less than a batch.
    private static readonly TimeSpan FarLook = TimeSpan.FromMilliseconds(10);

    private readonly TimeProvider _timeProvider = timeProvider ?? TimeProvider.System;
    private readonly ClaimFloor _floor = floor ?? new ClaimFloor(FarLook);
    private readonly ClaimStatements _statements = new(tables, options.BatchSize);
    private readonly string _upkeep = UpkeepStatement.Of(tables);
    private readonly OutcomePolicy _policy = new(options);
    private readonly TimeSpan _unreadableDelay = OutcomePolicy.UnreadableDelay(options);
    private readonly int _timeoutSeconds = WholeSeconds.Of(options.CommandTimeout);

    public async Task<ClaimExchange> ExchangeAsync(NpgsqlConnection connection, IReadOnlyList<Claim> settled, ClaimRequest request, CancellationToken cancellationToken)
    {
        var settlement = new ClaimSettlement(settled);
        var from = _floor.From;
        var batch = Begin(connection, settled.Count > 0 ? ClaimStatements.Plan : ClaimStatements.PlanUnflushed);
        await using (batch.ConfigureAwait(false))
        {
            settlement.AddTo(batch, _statements, _policy);
            if (request.Claims > 0)
                batch.BatchCommands.Add(Claim(request, from));
            if (options.UsePreparedStatements)
                await batch.PrepareAsync(cancellationToken).ConfigureAwait(false);
            var reader = await batch.ExecuteReaderAsync(cancellationToken).ConfigureAwait(false);
            await using (reader.ConfigureAwait(false))
            {
                var refused = await settlement.ReadRefusedAsync(reader, cancellationToken).ConfigureAwait(false);
                IReadOnlyList<Claim> taken = [];
                if (request.Claims > 0)
                {
                    await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
                    taken = await ClaimReading.ReadAsync(reader, queue.Name, request.Claims * options.BatchSize, _unreadableDelay, cancellationToken).ConfigureAwait(false);
                }

                // An error of the commit is reported after the last row.
                await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
                _floor.Claimed(from, taken);
                return new ClaimExchange(taken, refused);
            }
        }
    }

    public async Task<IReadOnlyList<Claim>> RenewAsync(NpgsqlConnection connection, IReadOnlyList<Claim> held, CancellationToken cancellationToken)
    {
        var batch = Begin(connection, ClaimStatements.Plan);
        await using (batch.ConfigureAwait(false))
        {
            batch.BatchCommands.Add(new NpgsqlBatchCommand(_statements.Renew)
            {
                Parameters =
                {
                    new NpgsqlParameter<long[]> { TypedValue = ClaimSettlement.TokensOf(held) },
                    new NpgsqlParameter<TimeSpan> { TypedValue = options.ClaimTimeLimit },
                },
            });
            if (options.UsePreparedStatements)
                await batch.PrepareAsync(cancellationToken).ConfigureAwait(false);
            var reader = await batch.ExecuteReaderAsync(cancellationToken).ConfigureAwait(false);
            await using (reader.ConfigureAwait(false))
            {
                await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
                var ended = await ClaimSettlement.ReadMissingAsync(reader, held, cancellationToken).ConfigureAwait(false);
                await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
                return ended;
            }
        }
    }

    public async Task<UpkeepReport> UpkeepAsync(NpgsqlConnection connection, CancellationToken cancellationToken)
    {
        // Not prepared, so that the plan fits the tables' current content. The statement includes the check of the queue, so that an idle receiver runs one statement per poll interval.
        var command = Upkeep(connection);
        await using (command.ConfigureAwait(false))
        {
            var began = _timeProvider.GetTimestamp();
            var reader = await command.ExecuteReaderAsync(cancellationToken).ConfigureAwait(false);
            await using (reader.ConfigureAwait(false))
            {
                await reader.ReadAsync(cancellationToken).ConfigureAwait(false);
                var elapsed = _timeProvider.GetElapsedTime(began);
                TimeSpan? nextDue = await reader.IsDBNullAsync(3, cancellationToken).ConfigureAwait(false) ? null : reader.GetTimeSpan(3);
                var report = new UpkeepReport(reader.GetBoolean(0), reader.GetInt32(1), reader.GetInt32(2), nextDue);
                var hasFirst = !await reader.IsDBNullAsync(4, cancellationToken).ConfigureAwait(false);
                _floor.Looked(elapsed, hasFirst ? reader.GetInt16(4) : null, hasFirst ? reader.GetInt64(5) : null);
                await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
                return report;
            }
        }
    }

    private NpgsqlBatch Begin(NpgsqlConnection connection, string plan) =>
        new(connection) { Timeout = _timeoutSeconds, BatchCommands = { QueueGuard.CommandFor(tables, queue, $"{plan},") } };

    private NpgsqlBatchCommand Claim(ClaimRequest request, ClaimFloor.Position from)
    {
        var command = new NpgsqlBatchCommand((request.Claims > 1, request.RetriesFirst) switch
        {
            (false, false) => _statements.FreshFirst,
            (false, true) => _statements.RetriesFirst,
            (true, false) => _statements.SeveralFreshFirst,
            (true, true) => _statements.SeveralRetriesFirst,
        });
        command.Parameters.Add(new NpgsqlParameter<int> { TypedValue = queue.Id });
        command.Parameters.Add(new NpgsqlParameter<TimeSpan> { TypedValue = options.ClaimTimeLimit });
        command.Parameters.Add(new NpgsqlParameter<string> { TypedValue = worker });
        command.Parameters.Add(new NpgsqlParameter<long> { TypedValue = options.MaxBatchBytes });
        command.Parameters.Add(new NpgsqlParameter<short> { TypedValue = from.Rank });
        command.Parameters.Add(new NpgsqlParameter<long> { TypedValue = from.Id });
        // Random, not from a sequence: after a crash or fail-over a sequence may repeat values, and a new claim would get a lost claim's token.
        command.Parameters.Add(new NpgsqlParameter<long> { TypedValue = Random.Shared.NextInt64() });
        if (request.Claims > 1)
            command.Parameters.Add(new NpgsqlParameter<int> { TypedValue = request.Claims });
        return command;
    }

    private NpgsqlCommand Upkeep(NpgsqlConnection connection) => new(_upkeep, connection)
    {
        CommandTimeout = _timeoutSeconds,
        Parameters =
        {
            new NpgsqlParameter<int> { TypedValue = queue.Id },
            new NpgsqlParameter<int> { TypedValue = options.MaxAttempts },
            new NpgsqlParameter { NpgsqlDbType = NpgsqlTypes.NpgsqlDbType.Interval, Value = (object?)options.DeadRetention ?? DBNull.Value },
            new NpgsqlParameter<string> { TypedValue = options.ClaimTimeLimit.ToString("c") },
            new NpgsqlParameter<string> { TypedValue = queue.Name },
            new NpgsqlParameter<short> { TypedValue = (short)queue.Shards },
        },
    };
}

/// <summary>Reads the rows that a claim statement returns. Each row is a claim, with its messages as arrays.</summary>
internal static class ClaimReading
{
    // By priority, the highest first, then by number. Aggregates usually keep this order, but do not promise it.
    private static readonly Comparison<QueueMessage> ByTurn = static (left, right) =>
        left.Priority != right.Priority ? right.Priority.CompareTo(left.Priority) : left.Id.CompareTo(right.Id);

    public static async ValueTask<List<Claim>> ReadAsync(NpgsqlDataReader reader, string queue, int wanted, TimeSpan unreadableDelay, CancellationToken cancellationToken)
    {
        var claims = new List<Claim>(1);
        var handle = OutputHandle.Named(queue);
        while (await reader.ReadAsync(cancellationToken).ConfigureAwait(false))
        {
            var attempt = reader.GetInt16(1) + 1;
            var ids = reader.GetFieldValue<long[]>(2);
            var ranks = reader.GetFieldValue<short[]>(3);
            var times = reader.GetFieldValue<DateTime[]>(4);
            var headers = reader.IsDBNull(5) ? null : reader.GetFieldValue<byte[]?[]>(5);
            var payloads = reader.GetFieldValue<byte[][]>(6);
            var messages = new QueueMessage[ids.Length];
            for (var index = 0; index < messages.Length; index++)
            {
                var header = StoredHeader.Read(headers?[index], out var trace, out var fault);
                messages[index] = new QueueMessage(handle, ids[index], attempt, -ranks[index], new DateTimeOffset(times[index]), key: null, header, payloads[index]) { Trace = trace };
                if (fault is not null)
                    StoredHeader.Withhold(messages[index], headers![index], fault, unreadableDelay);
            }

            if (!IsInTurn(messages))
                Array.Sort(messages, ByTurn);
            // A retry is a batch of its own, so more messages may wait.
            var hasMore = attempt > 1 || reader.GetInt64(7) >= wanted || reader.GetInt64(7) > messages.Length;
            claims.Add(new Claim(reader.GetInt64(0), shard: -1, new QueueBatch(messages)) { HasMore = hasMore });
        }

        return claims;
    }

    private static bool IsInTurn(QueueMessage[] messages)
    {
        for (var index = 1; index < messages.Length; index++)
        {
            if (ByTurn(messages[index - 1], messages[index]) > 0)
                return false;
        }

        return true;
    }
}

/// <summary>
/// The position in the index where claims begin to look for messages. Claimed messages leave dead entries in the index, and while an old transaction keeps the server from removing them, each look from the
/// beginning would read them all. As long as few are left, claims look from the beginning. Thread-safe.
/// </summary>
internal sealed class ClaimFloor(TimeSpan farLook)
{
    private static readonly Position Beginning = new(short.MinValue, 0);

    private volatile Position _from = Beginning;

    // Written only by upkeep's task.
    private volatile bool _isFar;

    public Position From => _from;

    /// <summary>Reports how long a look from the beginning took, and which message it found first. At the latest, this look finds messages that arrived below the floor, such as ones with a higher priority.</summary>
    public void Looked(TimeSpan elapsed, short? rank, long? id)
    {
        _isFar = elapsed > farLook;
        _from = _isFar && rank is { } first && id is { } number ? new Position(first, number) : Beginning;
    }

    /// <summary>Reports the messages that a claim took when it looked from a position. The next claim begins at its end, unless a look from the beginning came in between.</summary>
    public void Claimed(Position from, IReadOnlyList<Claim> taken)
    {
        if (!_isFar || taken.Count == 0)
            return;
        var batch = taken[^1].Batch;
        var last = batch[batch.Count - 1];
        // A retry was found through another index.
        if (last.Attempt == 1)
            Interlocked.CompareExchange(ref _from, new Position((short)-last.Priority, last.Id), from);
    }

    /// <summary>A position in the order of claims.</summary>
    internal sealed record Position(short Rank, long Id);
}

/// <summary>The claims that one exchange settles: one statement for all claims whose messages are all completed, then one for each other claim.</summary>
internal readonly struct ClaimSettlement
{
    private readonly List<Claim> _done;
    private readonly List<Claim> _mixed;

    public ClaimSettlement(IReadOnlyList<Claim> settled)
    {
        _done = new List<Claim>(settled.Count);
        _mixed = [];
        foreach (var claim in settled)
            (IsDone(claim) ? _done : _mixed).Add(claim);
    }

    public static long[] TokensOf(IReadOnlyList<Claim> claims)
    {
        var tokens = new long[claims.Count];
        for (var index = 0; index < tokens.Length; index++)
            tokens[index] = claims[index].Token;
        return tokens;
    }

    /// <summary>Returns the claims whose tokens are not among the rows.</summary>
    public static async ValueTask<List<Claim>> ReadMissingAsync(NpgsqlDataReader reader, IEnumerable<Claim> claims, CancellationToken cancellationToken)
    {
        var missing = claims.ToList();
        while (await reader.ReadAsync(cancellationToken).ConfigureAwait(false))
        {
            var token = reader.GetInt64(0);
            missing.RemoveAll(claim => claim.Token == token);
        }

        return missing;
    }

    public void AddTo(NpgsqlBatch batch, ClaimStatements statements, OutcomePolicy policy)
    {
        if (_done.Count > 0)
        {
            var command = new NpgsqlBatchCommand(statements.Done);
            command.Parameters.Add(new NpgsqlParameter<long[]> { TypedValue = TokensOf(_done) });
            batch.BatchCommands.Add(command);
        }

        foreach (var claim in _mixed)
            batch.BatchCommands.Add(Mixed(claim, statements, policy));
    }

    /// <summary>Reads the results of the commands that <see cref="AddTo"/> added, in the same order.</summary>
    /// <returns>The claims that had ended.</returns>
    public async ValueTask<IReadOnlyList<Claim>> ReadRefusedAsync(NpgsqlDataReader reader, CancellationToken cancellationToken)
    {
        List<Claim>? refused = null;
        if (_done.Count > 0)
        {
            await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
            refused = await ReadMissingAsync(reader, _done, cancellationToken).ConfigureAwait(false);
        }

        foreach (var claim in _mixed)
        {
            await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
            await reader.ReadAsync(cancellationToken).ConfigureAwait(false);
            if (reader.GetInt64(0) == 0)
                (refused ??= []).Add(claim);
        }

        return refused is { Count: > 0 } ? refused : [];
    }

    private static bool IsDone(Claim claim)
    {
        for (var index = 0; index < claim.Batch.Count; index++)
        {
            if (claim.Batch[index].Outcome is not (null or MessageOutcome.Done))
                return false;
        }

        return true;
    }

    private static NpgsqlBatchCommand Mixed(Claim claim, ClaimStatements statements, OutcomePolicy policy)
    {
        var count = claim.Batch.Count;
        var (ids, outcomes, errors, delays) = (new long[count], new short[count], new string?[count], new TimeSpan[count]);
        for (var index = 0; index < count; index++)
        {
            var verdict = policy.Evaluate(claim.Batch[index]);
            (ids[index], outcomes[index], errors[index], delays[index]) = (claim.Batch[index].Id, (short)verdict.Outcome, verdict.Error, verdict.Delay);
        }

        var command = new NpgsqlBatchCommand(statements.Mixed);
        command.Parameters.Add(new NpgsqlParameter<long> { TypedValue = claim.Token });
        command.Parameters.Add(new NpgsqlParameter<long[]> { TypedValue = ids });
        command.Parameters.Add(new NpgsqlParameter<short[]> { TypedValue = outcomes });
        command.Parameters.Add(new NpgsqlParameter<string?[]> { TypedValue = errors });
        command.Parameters.Add(new NpgsqlParameter<TimeSpan[]> { TypedValue = delays });
        return command;
    }
}
