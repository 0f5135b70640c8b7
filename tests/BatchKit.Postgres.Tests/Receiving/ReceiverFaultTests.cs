using BatchKit.TestServers.Network;
using BatchKit.TestServers.Postgres;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres.Tests.Receiving;

[Trait("Lane", "faults: connections are cut again and again")]
public sealed class ReceiverFaultTests(PostgresFixture fixture)
{
    [Fact]
    public async Task Another_number_of_shards_is_a_fault_that_names_the_setting()
    {
        await using var scene = await ReceiverScene.OpenAsync(fixture, new ScriptedHandler(), static options => options.Shards = 8);

        await scene.StartAsync();

        Assert.Equal("Shards is 8, but queue tasks was created with 0: set it to 0, or use another queue.", scene.Receiver.Fault);
        Assert.Equal(1, scene.Log.Count(2623));
    }

    [Fact]
    public async Task A_server_that_is_down_at_the_start_is_tried_until_it_is_up()
    {
        RequiredServer.SkipWhen(PostgresServer.WhyNotInstalled);
        await using var server = await PostgresServer.StartOwnAsync();
        await using var dataSource = NpgsqlDataSource.Create(server.ConnectionString);
        var options = new PostgresQueueReceiverOptions { Queue = "tasks", Concurrency = 2, ReconnectDelay = TimeSpan.FromMilliseconds(50), MaxReconnectDelay = TimeSpan.FromMilliseconds(200) };
        var log = new LogCollector();
        await server.StopAsync();
        await using var receiver = new PostgresQueueReceiver(dataSource, options, new ScriptedHandler(), timeProvider: null, new Logger<PostgresQueueReceiver>(log));

        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        var fault = receiver.Fault;
        await server.StartAsync();
        await log.WaitForAsync(2620);

        Assert.NotNull(fault);
        Assert.Null(receiver.Fault);
        Assert.Equal(1, log.Count(2621));
        Assert.Equal(1, log.Count(2622));
    }

    [Fact]
    public async Task A_server_that_accepts_and_never_answers_is_told_at_CommandTimeout_whatever_the_connections_limits()
    {
        await using var schema = await fixture.NewSchemaAsync();
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        // Npgsql cancels a statement over a connection of its own.
        var overProxy = new NpgsqlConnectionStringBuilder(schema.DataSource.ConnectionString) { Host = "127.0.0.1", Port = proxy.Port, Timeout = 600, CancellationTimeout = -1 };
        await using var dataSource = NpgsqlDataSource.Create(overProxy.ConnectionString);
        var options = new PostgresQueueReceiverOptions { Queue = "tasks", Schema = schema.Name, PollInterval = TimeSpan.FromMilliseconds(50), CommandTimeout = TimeSpan.FromSeconds(1) };
        var log = new LogCollector();
        await using var receiver = new PostgresQueueReceiver(dataSource, options, new ScriptedHandler(), timeProvider: null, new Logger<PostgresQueueReceiver>(log));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await log.WaitForAsync(2620);

        proxy.Stall();
        await log.WaitForAsync(2621);
        var fault = receiver.Fault;
        proxy.Resume();

        await log.WaitForAsync(2622);
        Assert.StartsWith("The server has not answered within 00:00:01 (CommandTimeout).", fault, StringComparison.Ordinal);
        Assert.Equal(1, log.Count(2621));
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    public async Task A_task_that_fails_is_begun_again_with_all_others(int prefetch)
    {
        var clock = new FailingClock();
        var handler = new ScriptedHandler((batch, _) =>
        {
            clock.FailsOnThisThread = batch[0] is { Attempt: 1 } && ClaimScene.TextOf(batch[0]) == "a";
            return ValueTask.CompletedTask;
        });
        await using var scene = await ReceiverScene.OpenAsync(
            fixture, handler, options => (options.Concurrency, options.BatchSize, options.Prefetch, options.ClaimTimeLimit) = (1, 1, prefetch, TimeSpan.FromSeconds(1)), timeProvider: clock);
        await scene.Claims.InsertAsync("a", "b");

        await scene.StartAsync();
        await handler.WaitForAsync(3);
        await scene.UntilAsync(static statistics => statistics.CompletedMessages == 2);
        await scene.Receiver.PauseAsync(TestContext.Current.CancellationToken).WithinDeadline();

        Assert.Equal(["a:1", "a:2", "b:1"], handler.Handled.Order(StringComparer.Ordinal));
    }

    [Fact]
    public async Task A_restart_under_load_is_logged_once_and_loses_nothing()
    {
        RequiredServer.SkipWhen(PostgresServer.WhyNotInstalled);
        await using var server = await PostgresServer.StartOwnAsync();
        await using var dataSource = NpgsqlDataSource.Create(server.ConnectionString);
        var options = new PostgresQueueReceiverOptions
        {
            Queue = "tasks",
            BatchSize = 1,
            Concurrency = 4,
            ReconnectDelay = TimeSpan.FromMilliseconds(50),
            MaxReconnectDelay = TimeSpan.FromMilliseconds(200),
            ClaimTimeLimit = TimeSpan.FromSeconds(5),
        };
        var log = new LogCollector();
        var handler = new ScriptedHandler(static (_, token) => new ValueTask(Task.Delay(TimeSpan.FromMilliseconds(2), token)));
        await PostgresSchema.EnsureSchemaAsync(dataSource);
        await ExecuteAsync(dataSource, "insert into batchkit.queues (name) values ('tasks')");
        await ExecuteAsync(dataSource, "insert into batchkit.messages (queue, payload) select 1, convert_to(number::text, 'UTF8') from generate_series(1, 1000) as number");
        await using var receiver = new PostgresQueueReceiver(dataSource, options, handler, timeProvider: null, new Logger<PostgresQueueReceiver>(log));

        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await handler.WaitForAsync(100);
        await server.KillAsync();
        await log.WaitForAsync(2621);
        await server.StartAsync();
        await log.WaitForAsync(2622);
        // What was under way at the kill is handled again.
        for (var handled = handler.Handled; DistinctOf(handled) < 1000; handled = handler.Handled)
            await handler.WaitForAsync(handled.Count + 1);

        Assert.Equal(1, log.Count(2621));
    }

    [Fact]
    public async Task Kept_connections_that_the_server_ended_meanwhile_are_replaced_without_a_word()
    {
        var server = await fixture.GetAsync();
        await using var own = NpgsqlDataSource.Create(server.ConnectionString + ";Application Name=kept");
        var ended = new TaskCompletionSource();
        var handler = new ScriptedHandler(async (_, _) => await ended.Task.WithinDeadline());
        await using var scene = await ReceiverScene.OpenAsync(fixture, handler, static options => (options.BatchSize, options.Concurrency) = (1, 1), own);
        await scene.Claims.InsertAsync("one", "two", "three");

        await scene.StartAsync();
        await scene.UntilAsync(static statistics => statistics.HandlingMessages == 1);
        await scene.Claims.Schema.ExecuteAsync("select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'kept'");
        ended.SetResult();
        await scene.UntilAsync(static statistics => statistics.CompletedMessages == 3);

        Assert.Equal(0, scene.Log.Count(2621));
        Assert.Equal(3, handler.Handled.Count);
    }

    [Fact]
    public async Task A_claim_that_a_crash_undid_is_made_again_and_its_first_holder_settles_nothing()
    {
        RequiredServer.SkipWhen(PostgresServer.WhyNotInstalled);
        // So that nothing writes the claim before the crash.
        await using var server = await PostgresServer.StartOwnAsync(new PostgresServerOptions { Lines = ["wal_writer_delay = '10s'"] });
        await using var dataSource = NpgsqlDataSource.Create(server.ConnectionString);
        var gates = new TaskCompletionSource[] { new(), new() };
        var handlings = -1;
        var handler = new ScriptedHandler(async (_, _) => await gates[Interlocked.Increment(ref handlings)].Task.WithinDeadline());
        await PostgresSchema.EnsureSchemaAsync(dataSource);
        await ExecuteAsync(dataSource, "insert into batchkit.queues (name) values ('tasks')");
        await ExecuteAsync(dataSource, "insert into batchkit.messages (queue, payload) values (1, 'once')");
        var options = new PostgresQueueReceiverOptions { Queue = "tasks", Concurrency = 2, PollInterval = TimeSpan.FromMilliseconds(100), ReconnectDelay = TimeSpan.FromMilliseconds(50) };
        await using var receiver = new PostgresQueueReceiver(dataSource, options, handler);

        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await Until.TrueAsync(() => Volatile.Read(ref handlings) == 0);
        await server.KillAsync();
        await server.StartAsync();
        await Until.TrueAsync(() => Volatile.Read(ref handlings) == 1);
        gates[0].SetResult();
        await Until.TrueAsync(() => receiver.GetStatistics().LostMessages == 1);
        gates[1].SetResult();
        await Until.TrueAsync(() => receiver.GetStatistics().CompletedMessages == 1);

        Assert.Equal(["once:1", "once:1"], handler.Handled);
    }

    [Fact]
    public async Task A_pool_that_is_too_small_is_named_with_the_size_needed()
    {
        var server = await fixture.GetAsync();
        await using var small = NpgsqlDataSource.Create(server.ConnectionString + ";Maximum Pool Size=3;Timeout=1");
        await using var scene = await ReceiverScene.OpenAsync(fixture, new ScriptedHandler(), static options => options.Concurrency = 5, small);
        await using var first = await small.OpenConnectionAsync();
        await using var second = await small.OpenConnectionAsync();
        await using var third = await small.OpenConnectionAsync();

        await scene.StartAsync();

        Assert.Contains("this receiver needs 4 connections", scene.Receiver.Fault, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_pool_that_is_too_small_is_warned_of_at_the_start()
    {
        var server = await fixture.GetAsync();
        await using var small = NpgsqlDataSource.Create(server.ConnectionString + ";Maximum Pool Size=3");
        await using var scene = await ReceiverScene.OpenAsync(fixture, new ScriptedHandler(), static options => options.Concurrency = 5, small);

        await scene.StartAsync();

        Assert.Contains("The pool has 3 connections; the receiver of queue tasks needs 4.", scene.Log.Text, StringComparison.Ordinal);
    }

    private static int DistinctOf(IReadOnlyList<string> handled) => handled.Select(static text => text.Split(':')[0]).Distinct().Count();

    private static async Task ExecuteAsync(NpgsqlDataSource dataSource, string sql)
    {
        await using var command = dataSource.CreateCommand(sql);
        await command.ExecuteNonQueryAsync();
    }

    /// <summary>A clock that fails once when a handler asks for it.</summary>
    private sealed class FailingClock : TimeProvider
    {
        [ThreadStatic]
        private static bool _fails;

        public bool FailsOnThisThread
        {
            set => _fails = value;
        }

        public override long GetTimestamp()
        {
            if (!_fails)
                return base.GetTimestamp();
            _fails = false;
            throw new InvalidOperationException("The clock fails.");
        }
    }
}
