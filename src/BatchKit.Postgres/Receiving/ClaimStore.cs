using BatchKit.Postgres.Schema;
using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>The claims of a queue without order.</summary>
internal sealed class ClaimStore(Tables tables, QueueEntry queue, PostgresQueueReceiverOptions options, string worker, TimeProvider? timeProvider = null, ClaimFloor? floor = null) : IClaimStore
{
    // Some ten thousand dead entries: below that, looking from the beginning costs less than a batch does.
    private static readonly TimeSpan FarLook = TimeSpan.FromMilliseconds(10);

    private readonly TimeProvider _timeProvider = timeProvider ?? TimeProvider.System;
    private readonly ClaimFloor _floor = floor ?? new ClaimFloor(FarLook);
    private readonly ClaimStatements _statements = new(tables, options.BatchSize);
    private readonly string _upkeep = UpkeepStatement.Of(tables);
    private readonly OutcomePolicy _policy = new(options);
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
            await batch.PrepareAsync(cancellationToken).ConfigureAwait(false);
            var reader = await batch.ExecuteReaderAsync(cancellationToken).ConfigureAwait(false);
            await using (reader.ConfigureAwait(false))
            {
                var refused = await settlement.ReadRefusedAsync(reader, cancellationToken).ConfigureAwait(false);
                IReadOnlyList<Claim> taken = [];
                if (request.Claims > 0)
                {
                    await reader.NextResultAsync(cancellationToken).ConfigureAwait(false);
                    taken = await ClaimReading.ReadAsync(reader, queue.Name, request.Claims * options.BatchSize, cancellationToken).ConfigureAwait(false);
                }

                // What fails at the commit is reported behind the last row.
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
        // Not prepared, so that it is planned each time by what the tables have then, and needs no statement beside it: an idle receiver asks once an interval and no more.
        var batch = new NpgsqlBatch(connection) { Timeout = _timeoutSeconds, BatchCommands = { Upkeep() } };
        await using (batch.ConfigureAwait(false))
        {
            var began = _timeProvider.GetTimestamp();
            var reader = await batch.ExecuteReaderAsync(cancellationToken).ConfigureAwait(false);
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
        new(connection) { Timeout = _timeoutSeconds, BatchCommands = { new NpgsqlBatchCommand(plan) } };

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
        // Drawn, not counted: a sequence that a crash or a fail-over set back would give a lost claim's token to another.
        command.Parameters.Add(new NpgsqlParameter<long> { TypedValue = Random.Shared.NextInt64() });
        if (request.Claims > 1)
            command.Parameters.Add(new NpgsqlParameter<int> { TypedValue = request.Claims });
        return command;
    }

    private NpgsqlBatchCommand Upkeep() => new(_upkeep)
    {
        Parameters =
        {
            new NpgsqlParameter<int> { TypedValue = queue.Id },
            new NpgsqlParameter<int> { TypedValue = options.MaxAttempts },
            new NpgsqlParameter { NpgsqlDbType = NpgsqlTypes.NpgsqlDbType.Interval, Value = (object?)options.DeadRetention ?? DBNull.Value },
            new NpgsqlParameter<string> { TypedValue = options.ClaimTimeLimit.ToString("c") },
        },
    };
}
