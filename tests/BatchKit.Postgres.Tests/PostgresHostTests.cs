using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;
using Npgsql;

namespace BatchKit.Postgres.Tests;

/// <summary>Transport and receiver as a host runs them: options, data sources, health.</summary>
public sealed class PostgresHostTests(PostgresFixture postgres)
{
    [Fact]
    public async Task One_scope_over_two_queues_is_one_transaction_and_is_handled()
    {
        await using var schema = await postgres.NewSchemaAsync();
        var handler = new KeepingHandler();
        using var host = Build(schema, "npcs", handler);
        await host.StartAsync(TestContext.Current.CancellationToken);
        var output = host.Services.GetRequiredService<IOutputBuffer>();

        await using (output.BeginBufferingScope())
        {
            foreach (var line in Some.Lines(500))
            {
                output.Write(OutputHandle.Named("npcs"), Some.Bytes(line));
                output.Write(OutputHandle.Named("weather"), Some.Bytes(line));
            }
        }

        await handler.WaitForAsync(500);
        await host.StopAsync(TestContext.Current.CancellationToken);
        Assert.Equal(Some.Lines(500).Order(StringComparer.Ordinal), handler.Texts.Order(StringComparer.Ordinal));
        Assert.Equal(1L, await schema.ScalarAsync<long>("select count(distinct enqueued_at) from {s}.messages"));
        Assert.Equal(500L, await schema.ScalarAsync<long>("select count(*) from {s}.messages"));
    }

    [Fact]
    public async Task A_buffer_and_a_queue_with_a_data_source_of_their_own_take_it()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using var nowhere = Nowhere();
        var handler = new KeepingHandler();
        var host = Host.CreateApplicationBuilder();
        host.Services.AddSingleton(nowhere);
        host.Services.AddKeyedSingleton("tasks", schema.DataSource);
        host.Services.AddKeyedSingleton("game", schema.DataSource);
        host.Services.AddBatchKit("game").UsePostgres(options => options.Schema = schema.Name);
        host.Services.AddPostgresQueueReceiver("tasks", _ => handler, options => options.Schema = schema.Name);
        using var built = host.Build();
        await built.StartAsync(TestContext.Current.CancellationToken);

        built.Services.GetRequiredKeyedService<IOutputBuffer>("game").Write(OutputHandle.Named("tasks"), "one"u8);

        await handler.WaitForAsync(1);
        await built.StopAsync(TestContext.Current.CancellationToken);
        Assert.Equal(["one"], handler.Texts);
    }

    [Fact]
    public async Task Options_come_from_configuration_too()
    {
        await using var nowhere = Nowhere();
        var host = Host.CreateApplicationBuilder();
        host.Configuration.AddInMemoryCollection([new("Queues:Schema", "from configuration"), new("Queues:NotifyInterval", "00:00:03"), new("Queues:Shards", "7")]);
        host.Services.AddSingleton(nowhere);
        host.Services.AddBatchKit().UsePostgres();
        host.Services.Configure<PostgresOptions>(host.Configuration.GetSection("Queues"));
        using var built = host.Build();

        var options = built.Services.GetRequiredService<IOptionsMonitor<PostgresOptions>>().Get(Options.DefaultName);

        Assert.Equal(("from configuration", TimeSpan.FromSeconds(3), 7), (options.Schema, options.NotifyInterval, options.Shards));
    }

    [Fact]
    public async Task A_wrong_setting_stops_the_start_and_is_named()
    {
        await using var nowhere = Nowhere();
        (string Setting, Action<PostgresOptions> Configure)[] wrong =
        [
            (nameof(PostgresOptions.Schema), options => options.Schema = ""),
            (nameof(PostgresOptions.Schema), options => options.Schema = new string('n', 64)),
            (nameof(PostgresOptions.FrameQueue), options => options.FrameQueue = "nul\0"),
            (nameof(PostgresOptions.Shards), options => options.Shards = -1),
            (nameof(PostgresOptions.NotifyInterval), options => options.NotifyInterval = TimeSpan.FromHours(1)),
            (nameof(PostgresOptions.MaxStatementBytes), options => options.MaxStatementBytes = 1),
            (nameof(PostgresOptions.CommandTimeout), options => options.CommandTimeout = TimeSpan.Zero),
        ];
        foreach (var (setting, configure) in wrong)
        {
            using var host = Build(nowhere, builder => builder.UsePostgres(configure));

            var error = await Assert.ThrowsAsync<OptionsValidationException>(() => host.StartAsync(TestContext.Current.CancellationToken));

            Assert.Contains(setting, error.Message, StringComparison.Ordinal);
            var options = new PostgresOptions();
            configure(options);
            Assert.Contains(setting, Assert.Throws<OptionsValidationException>(() => new PostgresQueueTransport(nowhere, options)).Message, StringComparison.Ordinal);
        }
    }

    [Fact]
    public async Task Services_without_a_data_source_say_what_to_add()
    {
        using var host = Build(dataSource: null, builder => builder.UsePostgres());

        var error = await Assert.ThrowsAsync<InvalidOperationException>(() => host.StartAsync(TestContext.Current.CancellationToken));

        Assert.Contains(nameof(NpgsqlDataSource), error.Message, StringComparison.Ordinal);
        Assert.Contains("AddSingleton", error.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Health_follows_the_server()
    {
        RequiredServer.SkipWhen(PostgresServer.WhyNotInstalled);
        await using var server = await PostgresServer.StartOwnAsync();
        await using var schema = TestSchema.On(server);
        using var host = Build(schema, "tasks", new KeepingHandler());
        await host.StartAsync(TestContext.Current.CancellationToken);
        await WaitForHealthAsync(host, HealthStatus.Healthy, HealthStatus.Healthy);

        await server.StopAsync();
        var report = await WaitForHealthAsync(host, HealthStatus.Unhealthy, HealthStatus.Unhealthy);
        await server.StartAsync();
        await WaitForHealthAsync(host, HealthStatus.Healthy, HealthStatus.Healthy);
        await host.StopAsync(TestContext.Current.CancellationToken);

        Assert.StartsWith($"Cannot send. PostgreSQL at 127.0.0.1:{server.Port} can't be used: ", report.Entries["batchkit-postgres"].Description, StringComparison.Ordinal);
        Assert.StartsWith("Does not receive. ", report.Entries["batchkit-postgres-queue-tasks"].Description, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_receiver_that_can_not_listen_polls_and_its_health_is_degraded()
    {
        await using var schema = await postgres.NewSchemaAsync();
        var handler = new KeepingHandler();
        using var host = Build(
            schema.DataSource,
            builder => builder.UsePostgres(options => options.Schema = schema.Name),
            services => services.AddPostgresQueueReceiver("tasks", _ => handler, options =>
                (options.Schema, options.ListenConnectionString, options.PollInterval) = (schema.Name, "Host=127.0.0.1;Port=1;Username=nobody", TimeSpan.FromMilliseconds(20))));
        await host.StartAsync(TestContext.Current.CancellationToken);

        host.Services.GetRequiredService<IOutputBuffer>().Write(OutputHandle.Named("tasks"), "one"u8);
        await handler.WaitForAsync(1);
        var report = await WaitForHealthAsync(host, HealthStatus.Healthy, HealthStatus.Degraded);
        await host.StopAsync(TestContext.Current.CancellationToken);

        Assert.StartsWith("Listening for notifications ended, so work is found by polling. ", report.Entries["batchkit-postgres-queue-tasks"].Description, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_paused_receiver_is_healthy_and_says_so_and_its_service_resumes_it()
    {
        await using var schema = await postgres.NewSchemaAsync();
        var handler = new KeepingHandler();
        using var host = Build(schema, "tasks", handler);
        await host.StartAsync(TestContext.Current.CancellationToken);
        var receiver = host.Services.GetRequiredKeyedService<PostgresQueueReceiver>("tasks");

        await receiver.PauseAsync(TestContext.Current.CancellationToken).WithinDeadline();
        var report = await WaitForHealthAsync(host, HealthStatus.Healthy, HealthStatus.Healthy);
        host.Services.GetRequiredService<IOutputBuffer>().Write(OutputHandle.Named("tasks"), "one"u8);
        receiver.Resume();
        await handler.WaitForAsync(1);
        var resumed = await WaitForHealthAsync(host, HealthStatus.Healthy, HealthStatus.Healthy);
        await host.StopAsync(TestContext.Current.CancellationToken);

        Assert.StartsWith("The receiver is paused", report.Entries["batchkit-postgres-queue-tasks"].Description, StringComparison.Ordinal);
        Assert.Null(resumed.Entries["batchkit-postgres-queue-tasks"].Description);
    }

    private static NpgsqlDataSource Nowhere() => NpgsqlDataSource.Create("Host=127.0.0.1;Port=1;Username=nobody");

    /// <summary>A host that sends to a schema, and receives from one of its queues.</summary>
    private static IHost Build(TestSchema schema, string queue, IMessageHandler<QueueMessage> handler) => Build(
        schema.DataSource,
        builder => builder.UsePostgres(options => options.Schema = schema.Name),
        services => services.AddPostgresQueueReceiver(queue, _ => handler, options => options.Schema = schema.Name));

    private static IHost Build(NpgsqlDataSource? dataSource, Action<BatchKitBuilder> use, Action<IServiceCollection>? add = null)
    {
        var host = Host.CreateApplicationBuilder();
        host.Logging.ClearProviders();
        if (dataSource is not null)
            host.Services.AddSingleton(dataSource);
        use(host.Services.AddBatchKit());
        add?.Invoke(host.Services);
        return host.Build();
    }

    private static async Task<HealthReport> WaitForHealthAsync(IHost host, HealthStatus sending, HealthStatus receiving)
    {
        HealthReport? report = null;
        await Until.TrueAsync(async () =>
        {
            report = await host.Services.GetRequiredService<HealthCheckService>().CheckHealthAsync();
            return report.Entries["batchkit-postgres"].Status == sending && report.Entries["batchkit-postgres-queue-tasks"].Status == receiving;
        });
        return report!;
    }
}
