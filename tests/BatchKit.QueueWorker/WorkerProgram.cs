using System.Runtime.InteropServices;
using BatchKit.Postgres;
using BatchKit.TestServers.QueueWorker;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.QueueWorker;

/// <summary>Receives until it is told to end (SIGTERM), and then says what it did.</summary>
internal static class WorkerProgram
{
    public static async Task<int> RunAsync(QueueWorkerSettings settings)
    {
        var told = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        using var terminated = PosixSignalRegistration.Create(PosixSignal.SIGTERM, context =>
        {
            context.Cancel = true;
            told.TrySetResult();
        });

        using var loggers = LoggerFactory.Create(logging => logging.AddSimpleConsole(console => console.SingleLine = true).SetMinimumLevel(LogLevel.Warning));
        // The handler's statements take no connection that the receiver counts on.
        await using var dataSource = NpgsqlDataSource.Create(new NpgsqlConnectionStringBuilder(settings.ConnectionString) { ApplicationName = $"{Environment.ProcessId}" });
        await using var records = NpgsqlDataSource.Create(new NpgsqlConnectionStringBuilder(settings.ConnectionString) { ApplicationName = "record" });
        await using var receiver = new PostgresQueueReceiver(
            dataSource, Options(settings), new RecordingHandler(records, settings), logger: loggers.CreateLogger<PostgresQueueReceiver>());
        await receiver.StartAsync(CancellationToken.None);
        await Console.Out.WriteLineAsync(QueueWorkerProcess.Working);

        await told.Task;
        await receiver.StopAsync(CancellationToken.None);
        var statistics = receiver.GetStatistics();
        await Console.Out.WriteLineAsync($"completed {statistics.CompletedMessages}");
        await Console.Out.WriteLineAsync($"retried {statistics.RetriedMessages}");
        await Console.Out.WriteLineAsync($"buried {statistics.BuriedMessages}");
        await Console.Out.WriteLineAsync($"released {statistics.ReleasedMessages}");
        await Console.Out.WriteLineAsync($"lost {statistics.LostMessages}");
        return 0;
    }

    private static PostgresQueueReceiverOptions Options(QueueWorkerSettings settings) => new()
    {
        Schema = settings.Schema,
        Queue = settings.Queue,
        Shards = settings.Shards,
        Concurrency = settings.Concurrency,
        BatchSize = settings.BatchSize,
        Prefetch = settings.Prefetch,
        ClaimTimeLimit = settings.ClaimTimeLimit,
        PollInterval = settings.PollInterval,
        MaxAttempts = settings.MaxAttempts,
        RetryDelay = settings.RetryDelay,
        Poison = settings.Blocks ? PoisonPolicy.Block : PoisonPolicy.Bury,
        MaxReconnectDelay = TimeSpan.FromSeconds(1),
    };
}
