using BatchKit.Postgres.Schema;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Sending;

/// <summary>Stores rows with one prepared statement over arrays, and advances the producer's number in the same transaction. Any thread.</summary>
internal sealed class QueueInsert(Tables tables, TimeSpan commandTimeout)
{
    private const long NothingStored = 0;

    private readonly InsertStatements _statements = new(tables);

    private readonly int _timeoutSeconds = WholeSeconds.Of(commandTimeout);

    /// <summary>Stores what has a number above the producer's, in order, in one transaction of its own; what has not is stored already.</summary>
    /// <param name="connection">An open connection without a transaction.</param>
    /// <param name="rows">The rows.</param>
    /// <param name="cancellationToken">Ends it.</param>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses.</exception>
    public async Task StoreAsync(NpgsqlConnection connection, IProducerRows rows, CancellationToken cancellationToken)
    {
        var stored = NothingStored;
        while (stored < rows.LastNumber)
        {
            var missing = rows.Above(stored, out var firstNumber);
            if (await TryInsertAsync(connection, rows.Producer, missing, firstNumber, rows.LastNumber, cancellationToken).ConfigureAwait(false))
                return;
            // Mostly it was unknown, and is known now; else a commit that was lost to view had stored some.
            stored = await FindNumberAsync(connection, rows.Producer, cancellationToken).ConfigureAwait(false);
        }
    }

    // True when the producer was advanced, and the rows were stored with it.
    private async Task<bool> TryInsertAsync(
        NpgsqlConnection connection, ProducerId producer, ReadOnlyMemory<QueueRow> rows, long firstNumber, long lastNumber, CancellationToken cancellationToken)
    {
        var columns = InsertColumns.Rent(rows.Span);
        var command = new NpgsqlCommand(StatementFor(columns), connection) { CommandTimeout = _timeoutSeconds };
        await using (command.ConfigureAwait(false))
        {
            columns.AddTo(command.Parameters);
            AddProducer(command.Parameters, producer);
            command.Parameters.Add(new NpgsqlParameter<long> { TypedValue = firstNumber });
            command.Parameters.Add(new NpgsqlParameter<long> { TypedValue = lastNumber });
            await command.PrepareAsync(cancellationToken).ConfigureAwait(false);
            var advanced = await command.ExecuteScalarAsync(cancellationToken).ConfigureAwait(false);
            // Not when it failed: what was given up may still be written.
            columns.Return();
            return advanced is > 0L;
        }
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

    private static void AddProducer(NpgsqlParameterCollection parameters, ProducerId producer)
    {
        parameters.Add(new NpgsqlParameter<int> { TypedValue = producer.Node });
        parameters.Add(new NpgsqlParameter<long> { TypedValue = producer.Epoch });
        parameters.Add(new NpgsqlParameter<int> { TypedValue = producer.Lane });
    }

    private string StatementFor(InsertColumns columns) =>
        columns.ArePlain ? _statements.Plain
        : columns.HaveUniqueKeys ? _statements.Unique
        : _statements.Full;
}
