using BatchKit.Postgres;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Npgsql;
using WorldTicks.Ledger;
using WorldTicks.Measuring;
using WorldTicks.View;
using WorldTicks.Working;
using WorldTicks.World;

namespace WorldTicks.Hosting;

/// <summary>Builds the host of the program.</summary>
internal static class TicksApplication
{
    private const int WeatherConcurrency = 2;

    public static IHost Build(TicksOptions options)
    {
        var builder = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        var events = new SampleLog();
        builder.Logging.AddProvider(events).AddFilter("Microsoft", LogLevel.None).AddFilter("Npgsql", LogLevel.None);
        builder.Services.AddSingleton(events);
        builder.Services.AddSingleton(options);
        builder.Services.AddSingleton<RunClock>();
        AddDatabase(builder.Services, options);
        // Hosted services stop in the reverse order of their registration: the receivers first, then the heartbeat, then the buffer and the world's counters.
        if (options.IsWorld)
            AddWorld(builder.Services, options);
        if (options.IsWorker)
            AddWorker(builder.Services, options);
        AddView(builder.Services, options);
        return builder.Build();
    }

    private static void AddDatabase(IServiceCollection services, TicksOptions options)
    {
        services.AddSingleton(NpgsqlDataSource (_) => new NpgsqlDataSourceBuilder(options.Connection.ConnectionString) { Name = "worldticks" }.Build());
        services.AddSingleton(new LedgerStatements(options.Schema));
        services.AddSingleton<LedgerSchema>();
        services.AddSingleton<TicksServer>();
    }

    private static void AddWorld(IServiceCollection services, TicksOptions options)
    {
        services.AddSingleton<TaskTally>();
        services.AddSingleton<LedgerReader>();
        services.AddSingleton(provider => new PostgresQueueAdmin(provider.GetRequiredService<NpgsqlDataSource>(), options.Schema));
        services.AddSingleton<WorldMeter>();
        services.AddSingleton<WorldWatch>();
        services.AddHostedService(provider => provider.GetRequiredService<WorldWatch>());
        services.AddBatchKit(output =>
            {
                // When the buffer is full the world waits, because no task may be dropped.
                output.Overflow = OverflowPolicy.Wait;
                output.DeliveryTimeout = TimeSpan.FromHours(1);
                output.MaxRetryDelay = TimeSpan.FromSeconds(1);
                output.DrainTimeout = TimeSpan.FromSeconds(10);
            })
            .UsePostgres(postgres =>
            {
                postgres.Schema = options.Schema;
                postgres.QueueShards[TaskQueues.Weather] = TaskQueues.WeatherShards;
            });
        services.AddSingleton<GameWorld>();
        services.AddSingleton<TickLoop>();
        services.AddSingleton<ITicksRun, WorldRun>();
    }

    private static void AddWorker(IServiceCollection services, TicksOptions options)
    {
        services.AddSingleton<WorkerMeter>();
        services.AddSingleton<TaskRunner>();
        services.AddSingleton<ReportWriter>();
        services.AddHostedService<WorkerHeartbeat>();
        services.AddBatchKit("worker")
            .ReceiveFromPostgres<TaskHandler>(TaskQueues.Npc, receiver => Set(receiver, options))
            .ReceiveFromPostgres<TaskHandler>(TaskQueues.Weather, receiver =>
            {
                Set(receiver, options);
                receiver.Shards = TaskQueues.WeatherShards;
                // Each batch holds a connection, and the weather is a small part of the work.
                receiver.Concurrency = Math.Min(options.Concurrency, WeatherConcurrency);
            });
        if (!options.IsWorld)
            services.AddSingleton<ITicksRun, WorkerRun>();
    }

    private static void Set(PostgresQueueReceiverOptions receiver, TicksOptions options)
    {
        receiver.Schema = options.Schema;
        receiver.Concurrency = options.Concurrency;
        receiver.BatchSize = options.BatchSize;
        receiver.ClaimTimeLimit = options.ClaimTimeLimit;
        receiver.MaxAttempts = 3;
        receiver.RetryDelay = TimeSpan.FromMilliseconds(500);
        receiver.MaxReconnectDelay = TimeSpan.FromSeconds(1);
    }

    private static void AddView(IServiceCollection services, TicksOptions options)
    {
        if (options.IsWorld)
            services.AddSingleton<IScreen, WorldScreen>();
        else
            services.AddSingleton<IScreen, WorkerScreen>();
        if (options.IsPlain || Console.IsOutputRedirected)
            services.AddSingleton<IView, PlainView>();
        else
            services.AddSingleton<IView, LiveView>();
    }
}
