using Npgsql;

namespace WorldTicks.Ledger;

/// <summary>Takes the reports of one world's tasks off their table, each once, and sees which workers live. One thread at a time.</summary>
internal sealed class LedgerReader(NpgsqlDataSource dataSource, LedgerStatements statements)
{
    private const int MostReports = 10_000;

    // Read and counted, but perhaps still in the table: a delete whose answer was lost may or may not have happened.
    private readonly HashSet<Guid> _counted = [];

    /// <summary>Reads what is there.</summary>
    /// <param name="run">Whose.</param>
    /// <param name="take">Gets each report, in the order in which the tasks of a region were run.</param>
    /// <param name="cancellationToken">Ends it; what was taken stays taken.</param>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses.</exception>
    public async Task ReadAsync(int run, Action<ReportRow> take, CancellationToken cancellationToken)
    {
        while (await ReadSomeAsync(run, take, cancellationToken) == MostReports)
        {
            // There may be more.
        }
    }

    /// <summary>Reads who has been there in the last minute.</summary>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses.</exception>
    public async Task<IReadOnlyList<WorkerRow>> ReadWorkersAsync(CancellationToken cancellationToken)
    {
        var workers = new List<WorkerRow>();
        await using var command = dataSource.CreateCommand(statements.ReadWorkers);
        await using var rows = await command.ExecuteReaderAsync(cancellationToken);
        while (await rows.ReadAsync(cancellationToken))
            workers.Add(new(rows.GetString(0), rows.GetInt32(1), rows.GetInt64(2), rows.GetInt64(3), rows.GetBoolean(4), TimeSpan.FromSeconds(rows.GetDouble(5))));
        return workers;
    }

    /// <summary>Deletes what other worlds left behind and no one reads any more.</summary>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses.</exception>
    public async Task ForgetOldAsync(int run, CancellationToken cancellationToken)
    {
        await using var batch = dataSource.CreateBatch();
        batch.BatchCommands.Add(new NpgsqlBatchCommand(statements.ForgetOld) { Parameters = { new NpgsqlParameter<int> { TypedValue = run } } });
        batch.BatchCommands.Add(new NpgsqlBatchCommand(statements.ForgetWorkers));
        await batch.ExecuteNonQueryAsync(cancellationToken);
    }

    private async Task<int> ReadSomeAsync(int run, Action<ReportRow> take, CancellationToken cancellationToken)
    {
        Guid[] forgotten = [.. _counted];
        await using var batch = dataSource.CreateBatch();
        batch.BatchCommands.Add(new NpgsqlBatchCommand(statements.Forget) { Parameters = { new NpgsqlParameter<Guid[]> { TypedValue = forgotten } } });
        batch.BatchCommands.Add(new NpgsqlBatchCommand(statements.Read)
        {
            Parameters = { new NpgsqlParameter<int> { TypedValue = run }, new NpgsqlParameter<int> { TypedValue = MostReports } },
        });
        var count = 0;
        await using (var rows = await batch.ExecuteReaderAsync(cancellationToken))
        {
            for (; await rows.ReadAsync(cancellationToken); count++)
            {
                var row = new ReportRow(
                    rows.GetGuid(0), rows.GetInt64(1), rows.GetInt32(2), rows.GetInt64(3), rows.GetInt32(4), rows.IsDBNull(5) ? null : rows.GetInt64(5), rows.GetString(6));
                if (_counted.Add(row.Id))
                    take(row);
            }
        }

        // The batch was one transaction, and its end has been read.
        _counted.ExceptWith(forgotten);
        return count;
    }
}
