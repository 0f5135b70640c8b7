using BatchKit.Postgres.Schema;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Sending;

/// <summary>Stores rows with one statement over arrays, advances the producer's number in the same transaction, and notifies the rows' queues. Thread-safe.</summary>
internal sealed class QueueInsert(SendConnections connections, Tables tables, QueueNotifier notifier, PostgresOptions options)
{
    private const long NothingStored = 0;

    private readonly InsertStatements _statements = new(tables);

    private readonly int _timeoutSeconds = WholeSeconds.Of(options.CommandTimeout);

    /// <summary>Stores the rows whose numbers are above the producer's, in order, in a transaction of their own. The others are stored already.</summary>
    /// <param name="rows">The rows.</param>
    /// <param name="cancellationToken">Cancels the statement.</param>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses.</exception>
    public Task StoreAsync(IProducerRows rows, CancellationToken cancellationToken) =>
        connections.UseAsync((connection, token) => StoreAsync(connection, rows, token), cancellationToken);

    private async Task<bool> StoreAsync(NpgsqlConnection connection, IProducerRows rows, CancellationToken cancellationToken)
    {
        var stored = NothingStored;
        while (stored < rows.LastNumber)
        {
            if (await TryInsertAsync(connection, rows, stored, cancellationToken).ConfigureAwait(false))
                return true;
            // Usually the producer was unknown, and is added now. Otherwise an earlier attempt, whose commit was unknown, has stored some rows.
            stored = await FindNumberAsync(connection, rows.Producer, cancellationToken).ConfigureAwait(false);
        }

        // The attempt that stored the rows may have failed before its notification.
        NotifyOthers([.. rows.Queues], notified: []);
        return false;
    }

    // True when the producer was advanced and the rows were stored.
    private async Task<bool> TryInsertAsync(NpgsqlConnection connection, IProducerRows rows, long stored, CancellationToken cancellationToken)
    {
        var missing = rows.Above(stored, out var firstNumber);
        var columns = InsertColumns.Rent(missing.Span);
        // Error barriers make each command a transaction of its own, in one round trip. A NOTIFY in the same transaction as the insert would make all commits of the server wait for its fsync.
        var batch = new NpgsqlBatch(connection) { Timeout = _timeoutSeconds, EnableErrorBarriers = true, BatchCommands = { InsertCommand(columns, rows, firstNumber) } };
        await using (batch.ConfigureAwait(false))
        {
            var queues = rows.Queues.ToArray();
            var turns = notifier.TakeTurns(queues);
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
