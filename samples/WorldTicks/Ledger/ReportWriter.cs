using System.Diagnostics;
using Npgsql;
using NpgsqlTypes;
using WorldTicks.Hosting;

namespace WorldTicks.Ledger;

/// <summary>Stores which tasks were run, before they leave the queue. Thread-safe.</summary>
internal sealed class ReportWriter(NpgsqlDataSource dataSource, LedgerStatements statements, TicksOptions options)
{
    private static readonly TimeSpan RetryDelay = TimeSpan.FromMilliseconds(200);

    /// <summary>Stores each report once, and retries while the server is unavailable: without the report, the tasks would be run again.</summary>
    /// <exception cref="OperationCanceledException">The claim has ended, or the worker stops.</exception>
    public async Task WriteAsync(IReadOnlyList<TaskReport> reports, CancellationToken cancellationToken)
    {
        while (true)
        {
            try
            {
                await WriteOnceAsync(reports, cancellationToken);
                return;
            }
            catch (Exception exception) when (exception is NpgsqlException or TimeoutException or IOException)
            {
                await Task.Delay(RetryDelay, cancellationToken);
            }
        }
    }

    private async Task WriteOnceAsync(IReadOnlyList<TaskReport> reports, CancellationToken cancellationToken)
    {
        await using var command = dataSource.CreateCommand(statements.Report);
        Add(command, NpgsqlDbType.Uuid, reports.Select(report => report.Id));
        Add(command, NpgsqlDbType.Integer, reports.Select(report => report.Task.Run));
        Add(command, NpgsqlDbType.Bigint, reports.Select(report => report.Task.Number));
        Add(command, NpgsqlDbType.Integer, reports.Select(report => report.Task.Step > 0 ? report.Task.Subject : 0));
        Add(command, NpgsqlDbType.Bigint, reports.Select(report => report.Task.Step));
        Add(command, NpgsqlDbType.Integer, reports.Select(report => report.Attempt));
        Add(command, NpgsqlDbType.TimestampTz, reports.Select(report => report.EnqueuedAt.UtcDateTime));
        // The age by this machine's clock is subtracted from the server's time, because the two clocks need not agree.
        Add(command, NpgsqlDbType.Bigint, reports.Select(report => (long)Stopwatch.GetElapsedTime(report.TakenAt).TotalMicroseconds));
        Add(command, NpgsqlDbType.Boolean, reports.Select(report => report.IsPrompt));
        command.Parameters.Add(new NpgsqlParameter<string> { TypedValue = options.WorkerName });
        await command.ExecuteNonQueryAsync(cancellationToken);
    }

    private static void Add<T>(NpgsqlCommand command, NpgsqlDbType type, IEnumerable<T> values) =>
        command.Parameters.Add(new NpgsqlParameter<T[]> { NpgsqlDbType = NpgsqlDbType.Array | type, TypedValue = [.. values] });
}
