using BatchKit.Postgres.Schema;
using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>The claims of a queue without order.</summary>
internal sealed class ClaimStore(Tables tables, QueueEntry queue, PostgresQueueReceiverOptions options, string worker, TimeProvider? timeProvider = null, ClaimFloor? floor = null) : IClaimStore
{
    // About ten thousand dead entries. Below that, looking from the beginning costs less than a batch.
    private static readonly TimeSpan FarLook = TimeSpan.FromMilliseconds(10);

    // Of one exchange. More would gain nothing, and take longer.
    private const int MostMessages = 1000;

    private readonly TimeProvider _timeProvider = timeProvider ?? TimeProvider.System;
    private readonly ClaimFloor _floor = floor ?? new ClaimFloor(FarLook);
    private readonly ClaimStatements _statements = new(tables, options.BatchSize);
    private readonly string _upkeep = UpkeepStatement.Of(tables);
    private readonly OutcomePolicy _policy = new(options);
    private readonly UpkeepLimit _upkeepLimit = new(options.CommandTimeout);
    private readonly TimeSpan _unreadableDelay = OutcomePolicy.UnreadableDelay(options);
    private readonly int _timeoutSeconds = WholeSeconds.Of(options.CommandTimeout);

    public int MostClaims { get; } = Math.Max(2, MostMessages / options.BatchSize);

    public async Task<ClaimExchange> ExchangeAsync(NpgsqlConnection connection, IReadOnlyList<Claim> settled, ClaimRequest request, CancellationToken cancellationToken)
    {
        if (!request.IsRepeat)
            return await ExchangeOnceAsync(connection, settled, request, cancellationToken).ConfigureAwait(false);
        // What the lost attempt settled was committed together with what it took.
        if (await AdoptAsync(connection, request.Token, cancellationToken).ConfigureAwait(false) is { Count: > 0 } adopted)
            return new ClaimExchange(adopted, Refused: []);
        try
        {
            var exchange = await ExchangeOnceAsync(connection, settled, request, cancellationToken).ConfigureAwait(false);
            return exchange with { Refused = await RepeatedSettlement.FindLostAsync(connection, exchange.Refused, Unsettled, cancellationToken).ConfigureAwait(false) };
        }
        catch (PostgresException exception) when (exception.SqlState == PostgresErrorCodes.UniqueViolation)
        {
            // The lost attempt was still under way, and has now been committed.
            return new ClaimExchange(await AdoptAsync(connection, request.Token, cancellationToken).ConfigureAwait(false), Refused: []);
        }
    }

    private async Task<ClaimExchange> ExchangeOnceAsync(NpgsqlConnection connection, IReadOnlyList<Claim> settled, ClaimRequest request, CancellationToken cancellationToken)
    {
        _policy.Fit(connection);
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
                    taken = await ClaimReading.ReadAsync(this, reader, queue.Name, request.Claims, options.BatchSize, _unreadableDelay, cancellationToken).ConfigureAwait(false);
                }

                // An error of the commit is reported after the last row.
                await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
                _floor.Claimed(from, taken);
                return new ClaimExchange(taken, refused);
            }
        }
    }

    private async Task<IReadOnlyList<Claim>> AdoptAsync(NpgsqlConnection connection, long token, CancellationToken cancellationToken)
    {
        var batch = Begin(connection, ClaimStatements.Plan);
        await using (batch.ConfigureAwait(false))
        {
            batch.BatchCommands.Add(new NpgsqlBatchCommand(_statements.Adopt)
            {
                Parameters = { new NpgsqlParameter<long> { TypedValue = token }, new NpgsqlParameter<TimeSpan> { TypedValue = options.ClaimTimeLimit } },
            });
            var reader = await batch.ExecuteReaderAsync(cancellationToken).ConfigureAwait(false);
            await using (reader.ConfigureAwait(false))
            {
                await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
                // It is unknown whether more messages wait, so each claim says so.
                var adopted = await ClaimReading.ReadAsync(this, reader, queue.Name, wanted: 0, options.BatchSize, _unreadableDelay, cancellationToken).ConfigureAwait(false);
                await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
                return adopted;
            }
        }
    }

    public async Task<(ulong Transaction, bool IsSettled)> SettleAsync(NpgsqlTransaction transaction, Claim claim, CancellationToken cancellationToken)
    {
        // The planner's settings would hold for the rest of the transaction.
        var batch = new NpgsqlBatch(transaction.Connection, transaction) { Timeout = _timeoutSeconds };
        await using (batch.ConfigureAwait(false))
        {
            _policy.Fit(transaction.Connection!);
            var settlement = new ClaimSettlement([claim], isByHandler: true);
            batch.BatchCommands.Add(QueueGuard.CommandFor(tables, queue, "select pg_catalog.pg_current_xact_id(),"));
            settlement.AddTo(batch, _statements, _policy);
            var reader = await batch.ExecuteReaderAsync(cancellationToken).ConfigureAwait(false);
            await using (reader.ConfigureAwait(false))
            {
                await reader.ReadAsync(cancellationToken).ConfigureAwait(false);
                var id = reader.GetFieldValue<ulong>(0);
                return (id, await settlement.ReadRefusedAsync(reader, cancellationToken).ConfigureAwait(false) is { Count: 0 });
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

    public Task<UpkeepReport> UpkeepAsync(NpgsqlConnection connection, CancellationToken cancellationToken) => _upkeepLimit.ApplyAsync(UpkeepOnceAsync(connection, cancellationToken));

    private async Task<UpkeepReport> UpkeepOnceAsync(NpgsqlConnection connection, CancellationToken cancellationToken)
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

    private NpgsqlBatchCommand Unsettled(Claim claim, long[] ids) => new(_statements.Unsettled)
    {
        Parameters =
        {
            new NpgsqlParameter<int> { TypedValue = queue.Id },
            new NpgsqlParameter<long[]> { TypedValue = ids },
            new NpgsqlParameter<short[]> { TypedValue = [.. claim.Batch.Select(static message => (short)-message.Priority).Distinct()] },
            new NpgsqlParameter<int> { TypedValue = claim.Batch[0].Attempt - 1 },
        },
    };

    private NpgsqlBatch Begin(NpgsqlConnection connection, string plan) =>
        new(connection) { Timeout = _timeoutSeconds, BatchCommands = { QueueGuard.CommandFor(tables, queue, $"{plan},") } };

    private NpgsqlBatchCommand Claim(ClaimRequest request, ClaimFloor.Position from)
    {
        var command = new NpgsqlBatchCommand(request switch
        {
            { Claims: > 1 } => _statements.Claim,
            { Retries: > 0 } => _statements.ClaimRetry,
            _ => _statements.ClaimFresh,
        });
        command.Parameters.Add(new NpgsqlParameter<int> { TypedValue = queue.Id });
        command.Parameters.Add(new NpgsqlParameter<TimeSpan> { TypedValue = options.ClaimTimeLimit });
        command.Parameters.Add(new NpgsqlParameter<string> { TypedValue = worker });
        command.Parameters.Add(new NpgsqlParameter<long> { TypedValue = options.MaxBatchBytes });
        command.Parameters.Add(new NpgsqlParameter<short> { TypedValue = from.Rank });
        command.Parameters.Add(new NpgsqlParameter<long> { TypedValue = from.Id });
        command.Parameters.Add(new NpgsqlParameter<long> { TypedValue = request.Token });
        if (request.Claims == 1)
            return command;
        command.Parameters.Add(new NpgsqlParameter<int> { TypedValue = request.Claims });
        command.Parameters.Add(new NpgsqlParameter<int> { TypedValue = request.Retries });
        return command;
    }

    private NpgsqlCommand Upkeep(NpgsqlConnection connection) => new(_upkeep, connection)
    {
        CommandTimeout = _upkeepLimit.TimeoutSeconds,
        Parameters =
        {
            new NpgsqlParameter<int> { TypedValue = queue.Id },
            new NpgsqlParameter<int> { TypedValue = options.MaxAttempts },
            new NpgsqlParameter { NpgsqlDbType = NpgsqlTypes.NpgsqlDbType.Interval, Value = (object?)options.DeadRetention ?? DBNull.Value },
            new NpgsqlParameter<string> { TypedValue = options.ClaimTimeLimit.ToString("c") },
            new NpgsqlParameter<string> { TypedValue = queue.Name },
            new NpgsqlParameter<short> { TypedValue = (short)queue.Shards },
            new NpgsqlParameter<int> { TypedValue = _upkeepLimit.Claims },
            new NpgsqlParameter<long> { TypedValue = UpkeepLimit.MaxBytes },
        },
    };
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
