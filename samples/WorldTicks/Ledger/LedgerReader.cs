using Npgsql;

namespace WorldTicks.Ledger;

/// <summary>Reads the reports of one world's tasks, each once, deletes them, and reads which workers are alive. Not thread-safe.</summary>
internal sealed class LedgerReader(NpgsqlDataSource dataSource, LedgerStatements statements)
{
    private const int MostReports = 10_000;

    // Reports that were counted and may still be in the table: when the answer to a delete is lost, the delete may or may not have been committed.
    private readonly HashSet<Guid> _counted = [];

    /// <summary>Reads the reports in the table.</summary>
    /// <param name="run">The world whose reports are read.</param>
    /// <param name="take">Gets each report, in the order in which the tasks of a region were run.</param>
    /// <param name="cancellationToken">Ends the reading. Reports that were passed on stay counted.</param>
    /// <exception cref="NpgsqlException">The server can't be reached, or refuses.</exception>
    public async Task ReadAsync(int run, Action<ReportRow> take, CancellationToken cancellationToken)
    {
        while (await ReadSomeAsync(run, take, cancellationToken) == MostReports)
        {
            // There may be more reports than one read returns.
        }
    }

    /// <summary>Reads the workers that were alive in the last minute.</summary>
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

    /// <summary>Deletes old rows of other worlds, which no one reads any more.</summary>
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

        // The batch was one transaction, and it has been read to its end.
        _counted.ExceptWith(forgotten);
        return count;
    }
}
