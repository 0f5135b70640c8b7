using BatchKit.Postgres.Schema;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Sending;

/// <summary>Stores rows with one statement over arrays, advances the producer's number in the same transaction, and notifies the rows' queues. Thread-safe.</summary>
internal sealed class QueueInsert(KeptConnections connections, Tables tables, QueueNotifier notifier, PostgresOptions options)
{
    private const long NothingStored = 0;

    private readonly InsertStatements _statements = new(tables);

    // The caller's token ends a statement after CommandTimeout, and the error names that setting. Npgsql's own limit is longer, so that the two do not race. It ends only reads that take no token, such as
    // reading the rest of an answer after a cancellation.
    private readonly int _timeoutSeconds = WholeSeconds.Of(2 * options.CommandTimeout);

    /// <summary>Stores the rows whose numbers are above the producer's, in order, in a transaction of their own. The others are stored already.</summary>
    /// <param name="rows">The rows.</param>
    /// <param name="cancellationToken">Cancels the statement.</param>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses.</exception>
    public Task StoreAsync(IProducerRows rows, CancellationToken cancellationToken) =>
        connections.UseAsync((connection, token) => StoreAsync(connection, rows, token), cancellationToken);

    private async Task<bool> StoreAsync(NpgsqlConnection connection, IProducerRows rows, CancellationToken cancellationToken)
    {
        using var guard = new ReplicationGuard(connection);
        var isNew = await TryStoreAsync(connection, rows, cancellationToken).ConfigureAwait(false);
        guard.ThrowIfCut(cancellationToken);
        return isNew;
    }

    private async Task<bool> TryStoreAsync(NpgsqlConnection connection, IProducerRows rows, CancellationToken cancellationToken)
    {
        var stored = NothingStored;
        for (var isFirst = true; stored < rows.LastNumber; isFirst = false)
        {
            if (await TryInsertAsync(connection, rows, stored, isFirst, cancellationToken).ConfigureAwait(false))
                return true;
            // Usually the producer was unknown, and is added now. Otherwise an earlier attempt, whose commit was unknown, has stored some rows.
            stored = await FindNumberAsync(connection, rows.Producer, cancellationToken).ConfigureAwait(false);
        }

        // The attempt that stored the rows may have failed before its notification.
        NotifyOthers([.. rows.Queues], notified: []);
        return false;
    }

    // True when the producer was advanced and the rows were stored.
    private async Task<bool> TryInsertAsync(NpgsqlConnection connection, IProducerRows rows, long stored, bool isFirst, CancellationToken cancellationToken)
    {
        var missing = rows.Above(stored, out var firstNumber);
        var columns = InsertColumns.Rent(missing.Span);
        // Error barriers make each command a transaction of its own, in one round trip. A NOTIFY in the same transaction as the insert would make all commits of the server wait for its fsync.
        var batch = new NpgsqlBatch(connection) { Timeout = _timeoutSeconds, EnableErrorBarriers = true, BatchCommands = { InsertCommand(columns, rows, firstNumber) } };
        await using (batch.ConfigureAwait(false))
        {
            var queues = rows.Queues.ToArray();
            // The server does not know the producer of a first number, so that the attempt stores nothing of which a notification could tell.
            var turns = isFirst && firstNumber == 1 ? [] : notifier.TakeTurns(queues);
            if (turns.Length > 0)
                batch.BatchCommands.Add(notifier.CommandFor(turns));
            if (options.UsePreparedStatements)
                await batch.PrepareAsync(cancellationToken).ConfigureAwait(false);
            var (hasAdvanced, failure) = await ExecuteAsync(batch, cancellationToken).ConfigureAwait(false);
            // Not after an exception: an abandoned command may still read the lists.
            columns.Return();
            if (!hasAdvanced)
                return false;
            if (failure is null)
                NotifyOthers(queues, turns);
            else if (turns.Length == 0 || await FindNumberAsync(connection, rows.Producer, cancellationToken).ConfigureAwait(false) < rows.LastNumber)
                throw failure;
            else
                NotifyOthers(queues, notified: []);
            return true;
        }
    }

    // An error after the insert's row is an error of its commit or of the notification. The producer's number shows which.
    private static async Task<(bool HasAdvanced, PostgresException? Failure)> ExecuteAsync(NpgsqlBatch batch, CancellationToken cancellationToken)
    {
        var reader = await batch.ExecuteReaderAsync(cancellationToken).ConfigureAwait(false);
        await using (reader.ConfigureAwait(false))
        {
            var hasAdvanced = await reader.ReadAsync(cancellationToken).ConfigureAwait(false) && reader.GetInt64(0) > 0;
            try
            {
                while (await reader.NextResultAsync(cancellationToken).ConfigureAwait(false))
                {
                }
            }
            catch (PostgresException failure)
            {
                return (hasAdvanced, failure);
            }

            return (hasAdvanced, null);
        }
    }

    private void NotifyOthers(QueueEntry[] queues, int[] notified)
    {
        foreach (var queue in queues)
        {
            if (!notified.Contains(queue.Id))
                notifier.Notify(queue);
        }
    }

    private NpgsqlBatchCommand InsertCommand(InsertColumns columns, IProducerRows rows, long firstNumber)
    {
        var command = new NpgsqlBatchCommand(StatementFor(columns));
        columns.AddTo(command.Parameters);
        AddProducer(command.Parameters, rows.Producer);
        command.Parameters.Add(new NpgsqlParameter<long> { TypedValue = firstNumber });
        command.Parameters.Add(new NpgsqlParameter<long> { TypedValue = rows.LastNumber });
        columns.AddQueuesTo(command.Parameters);
        columns.AddFreedTo(command.Parameters);
        return command;
    }

    private async Task<long> FindNumberAsync(NpgsqlConnection connection, ProducerId producer, CancellationToken cancellationToken)
    {
        var command = new NpgsqlCommand(_statements.FindNumber, connection) { CommandTimeout = _timeoutSeconds };
        await using (command.ConfigureAwait(false))
        {
            AddProducer(command.Parameters, producer);
            return await command.ExecuteScalarAsync(cancellationToken).ConfigureAwait(false) is long number ? number : NothingStored;
        }
    }

    private void AddProducer(NpgsqlParameterCollection parameters, ProducerId producer)
    {
        parameters.Add(new NpgsqlParameter<int> { TypedValue = producer.Node });
        parameters.Add(new NpgsqlParameter<long> { TypedValue = producer.Epoch });
        parameters.Add(new NpgsqlParameter<int> { TypedValue = options.IsOutbox ? ~producer.Partition : producer.Partition });
    }

    private string StatementFor(InsertColumns columns) =>
        columns.ArePlain ? _statements.Plain
        : columns.HaveUniqueKeys ? _statements.Unique
        : _statements.Full;
}

/// <summary>The statements that store rows. Each returns how many producers it advanced; with 0, it has stored nothing.</summary>
/// <remarks>
/// Under READ COMMITTED the update waits for an earlier transaction that holds the producer's row, for example a send whose commit is unknown, and then reads the number that it left (manual, section
/// 13.2.1). So a number is checked and advanced in one step, and messages that the earlier transaction has stored are not stored again.
/// </remarks>
internal sealed class InsertStatements
{
    private static readonly string FieldsFrom = $"{Rows.Of("$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8")} with ordinality as u (payload, queue, rank, delay, shard, key, unique_key, header, place)";
    private static readonly string UniqueFieldsFrom =
        $"{Rows.Of("$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8", "$17")} with ordinality as u (payload, queue, rank, delay, shard, key, unique_key, header, frees_at_claim, place)";

    private const string DueAt = "case when s.delay > 0 then pg_catalog.now() + s.delay::double precision * interval '1 millisecond' end";

    private readonly Tables _tables;

    public InsertStatements(Tables tables)
    {
        _tables = tables;
        Plain = CreatePlain(Advance(firstParameter: 4, QueueGuard.One(tables, "$2", "$9", "$10")));
        var several = Advance(firstParameter: 9, QueueGuard.Several(tables, "$14", "$15", "$16"));
        Full = CreateFull(several);
        Unique = CreateUnique(several);
        FindNumber = CreateFindNumber();
    }

    /// <summary>Stores rows of one queue that have only a payload. Parameters: payloads, queue, shard, then the producer, then the queue's name and number of shards.</summary>
    public string Plain { get; }

    /// <summary>Stores rows with headers but without uniqueness keys. Parameters: an array for each column, then the producer, then arrays of the queues' numbers, names and numbers of shards.</summary>
    public string Full { get; }

    /// <summary>The same, for rows with uniqueness keys: stores only the first row of each key, and only when the key is free. The last parameter is an array that says which rows free their key when they are claimed.</summary>
    public string Unique { get; }

    /// <summary>Returns the number up to which a producer's batches are stored, and adds an unknown producer with 0.</summary>
    /// <remarks>It always writes: its own commit waits for a synchronous standby, so what it finds stored is on the standby too.</remarks>
    public string FindNumber { get; }

    private string Advance(int firstParameter, string guard) =>
        $"""
        latest as materialized ({Latest(firstParameter)}),
        advanced as (
            update {_tables.Producers} as p set number = ${firstParameter + 4}, seen_at = pg_catalog.now() from latest
            where p.ctid = latest.ctid and p.number < ${firstParameter + 3} and {guard} = 1
            returning 1)
        """;

    // The last version of the producer's row, from the end of the index.
    private string Latest(int firstParameter) =>
        $"select ctid from {_tables.Producers} where node = ${firstParameter} and epoch = ${firstParameter + 1} and lane = ${firstParameter + 2} order by number desc limit 1";

    private string CreatePlain(string advanced) =>
        $"""
        with {advanced},
        stored as (
            insert into {_tables.Messages} (queue, shard, payload)
            select $2, $3, u.payload from advanced, pg_catalog.unnest($1) with ordinality as u (payload, place)
            order by u.place)
        select pg_catalog.count(*) from advanced
        """;

    private string CreateFull(string advanced) =>
        $"""
        with {advanced},
        stored as (
            insert into {_tables.Messages} (queue, rank, due_at, shard, key, header, payload)
            select s.queue, s.rank, {DueAt}, s.shard, s.key, s.header, s.payload from advanced, lateral (select * from {FieldsFrom}) as s
            order by s.place)
        select pg_catalog.count(*) from advanced
        """;

    // The keys are inserted in one order, so that two sends with common keys can't deadlock.
    private string CreateUnique(string advanced) =>
        $"""
        with {advanced},
        sent as materialized (select u.* from advanced, {UniqueFieldsFrom}),
        wanted as (select queue, unique_key, pg_catalog.min(place) as place from sent where unique_key is not null group by queue, unique_key),
        taken as (
            insert into {_tables.UniqueKeys} (queue, key) select queue, unique_key from wanted where {_tables.KeyIsFree("wanted.queue", "wanted.unique_key")} order by queue, unique_key
            on conflict do nothing returning queue, key),
        chosen as (select wanted.place from wanted join taken on taken.queue = wanted.queue and taken.key = wanted.unique_key),
        stored as (
            insert into {_tables.Messages} (queue, rank, due_at, shard, key, unique_key, frees_at_claim, header, payload)
            select s.queue, s.rank, {DueAt}, s.shard, s.key, s.unique_key, case when s.frees_at_claim then true end, s.header, s.payload from sent as s left join chosen on chosen.place = s.place
            where s.unique_key is null or chosen.place is not null
            order by s.place)
        select pg_catalog.count(*) from advanced
        """;

    // Each process start adds a producer, and at the same time deletes producers that were silent for long. SKIP LOCKED keeps two concurrent starts from waiting for each other.
    private string CreateFindNumber() =>
        $"""
        with silent as materialized (
            select ctid from {_tables.Producers}
            where seen_at < pg_catalog.now() - interval '30 days' and (node, epoch, lane) <> ($1, $2, $3) limit 1000 for update skip locked),
        forgotten as (delete from {_tables.Producers} where ctid in (select ctid from silent)),
        latest as materialized ({Latest(firstParameter: 1)}),
        seen as (update {_tables.Producers} as p set seen_at = pg_catalog.now() from latest where p.ctid = latest.ctid returning p.number),
        added as (
            insert into {_tables.Producers} as p (node, epoch, lane, number, seen_at) select $1, $2, $3, 0, pg_catalog.now() where not exists (select from latest)
            on conflict (node, epoch, lane, number) do update set seen_at = pg_catalog.now() returning p.number)
        select number from seen union all select number from added
        """;
}
