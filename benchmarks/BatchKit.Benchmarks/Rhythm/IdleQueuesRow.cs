using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.RhythmWays;
using BatchKit.Postgres;
using Npgsql;

namespace BatchKit.Benchmarks.Rhythm;

/// <summary>How many connections the receivers of twenty idle queues of a process take, as the server counts them.</summary>
internal sealed class IdleQueuesRow(RhythmStage stage)
{
    public const string Name = $"{nameof(RhythmBenchmarks)}.IdleQueues";

    public static readonly string[] Columns = ["", "connections"];

    private const int Queues = 20;
    private const string Application = "idle queues";

    private static readonly TimeSpan Start = TimeSpan.FromSeconds(1);

    private long _most;

    public async Task<GateReading> MeasureAsync()
    {
        await using var dataSource = NpgsqlDataSource.Create(new NpgsqlConnectionStringBuilder(stage.DataSource.ConnectionString) { ApplicationName = Application });
        var receivers = new List<PostgresQueueReceiver>();
        try
        {
            for (var queue = 1; queue <= Queues; queue++)
            {
                receivers.Add(new PostgresQueueReceiver(dataSource, new PostgresQueueReceiverOptions { Queue = $"idle {queue}" }, new WorkHandler(new TaskWork(TimeSpan.Zero))));
                await receivers[^1].StartAsync(CancellationToken.None);
            }

            await Task.Delay(Start);
            var connections = await stage.CountAsync($"select count(*) from pg_stat_activity where application_name = '{Application}'");
            _most = Math.Max(_most, connections);
            return new GateReading { [GateMetric.Connections] = connections };
        }
        finally
        {
            foreach (var receiver in receivers)
                await receiver.DisposeAsync();
        }
    }

    public IEnumerable<string> Describe() => [$"BatchKit, {Queues} idle queues", $"{_most}"];
}
