using Microsoft.Extensions.Hosting;
using Npgsql;
using WorldTicks.Hosting;
using WorldTicks.Ledger;

namespace WorldTicks.Working;

/// <summary>Writes twice a second that this worker is alive, and at its end that it has stopped. Only the world's view reads it; the queue does not need it.</summary>
internal sealed class WorkerHeartbeat(NpgsqlDataSource dataSource, LedgerStatements statements, TicksOptions options, WorkerMeter meter) : BackgroundService
{
    private static readonly TimeSpan Interval = TimeSpan.FromMilliseconds(500);

    public override async Task StopAsync(CancellationToken cancellationToken)
    {
        await base.StopAsync(cancellationToken);
        await TryBeatAsync(hasStopped: true, cancellationToken);
    }

    protected override async Task ExecuteAsync(CancellationToken stoppingToken)
    {
        using var timer = new PeriodicTimer(Interval);
        do
            await TryBeatAsync(hasStopped: false, stoppingToken);
        while (await timer.WaitForNextTickAsync(stoppingToken));
    }

    private async Task TryBeatAsync(bool hasStopped, CancellationToken cancellationToken)
    {
        var snapshot = meter.Take();
        try
        {
            await using var command = dataSource.CreateCommand(statements.SayAlive);
            command.Parameters.Add(new NpgsqlParameter<string> { TypedValue = options.WorkerName });
            command.Parameters.Add(new NpgsqlParameter<int> { TypedValue = hasStopped ? 0 : snapshot.Handling });
            command.Parameters.Add(new NpgsqlParameter<long> { TypedValue = snapshot.GivenBack });
            command.Parameters.Add(new NpgsqlParameter<long> { TypedValue = snapshot.Refused });
            command.Parameters.Add(new NpgsqlParameter<bool> { TypedValue = hasStopped });
            await command.ExecuteNonQueryAsync(cancellationToken);
        }
        catch (Exception exception) when (exception is NpgsqlException or TimeoutException or IOException)
        {
            // The receivers report the fault of the server. The next heartbeat tries again.
        }
    }
}
