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
