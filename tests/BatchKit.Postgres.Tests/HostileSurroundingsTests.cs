using BatchKit.Postgres.Schema;
using BatchKit.Postgres.Tests.Receiving;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres.Tests;

/// <summary>Loggers and callbacks that throw, settings that change after the start, a small pool and rights that are taken away: work goes on, or a fault says why not.</summary>
public sealed class HostileSurroundingsTests(PostgresFixture postgres)
{
    private static readonly OutputHandle Room = OutputHandle.Named("room");

    [Theory]
    [InlineData("first")]
    [InlineData("second")]
    [InlineData("random 4711")]
    public async Task A_logger_that_throws_stops_no_receiver(string calls)
    {
        await using var schema = await postgres.NewSchemaAsync();
        var failing = true;
        var handler = new ScriptedHandler((_, _) => failing ? throw new InvalidOperationException("The handler fails.") : ValueTask.CompletedTask);
        var options = new PostgresQueueReceiverOptions
        {
            Schema = schema.Name,
            Queue = "tasks",
            Concurrency = 2,
            MaxAttempts = 1000,
            RetryDelay = TimeSpan.FromMilliseconds(5),
            PollInterval = TimeSpan.FromMilliseconds(20),
            ReconnectDelay = TimeSpan.FromMilliseconds(10),
        };
        var receiver = new PostgresQueueReceiver(schema.DataSource, options, handler, logger: new Logger<PostgresQueueReceiver>(ThrowingLoggers.At(calls)));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await schema.ExecuteAsync("insert into {s}.messages (queue, payload) select id, n::text::bytea from {s}.queues, generate_series(1, 10) as n");
        await handler.WaitForAsync(30);
        await schema.ExecuteAsync($"select pg_terminate_backend(pid) from pg_stat_activity where query ilike 'listen %' and query like '%{NotificationChannelOf(schema)}%'");

        failing = false;
        await Until.TrueAsync(() => receiver.GetStatistics().CompletedMessages == 10);
        // Before it, the receiver names the ended connection of its listener, which is open again soon.
        await Until.TrueAsync(() => receiver.Degradation?.Contains("Loggers, listeners", StringComparison.Ordinal) == true);
        await receiver.DisposeAsync().WithinDeadline();
    }

    [Fact]
    public async Task A_logger_that_throws_stops_no_outbox()
    {
        await using var schema = await postgres.NewSchemaAsync();
        var arrived = new CollectingTransport();
        var outbox = new PostgresOutbox(
            schema.DataSource, new ScriptedTransport(arrived).Fail(3), new PostgresOutboxOptions { Schema = schema.Name, PollInterval = TimeSpan.FromMilliseconds(20) },
            logger: new Logger<PostgresOutbox>(ThrowingLoggers.At("random 4711")));
        await outbox.EnqueueAsync(Room, [Some.Message("one")], cancellationToken: TestContext.Current.CancellationToken);
        await outbox.StartAsync(TestContext.Current.CancellationToken).WithinDeadline();

        await arrived.WaitForMessagesAsync(1);
        await outbox.DisposeAsync().WithinDeadline();
    }

    [Fact]
    public async Task A_handler_whose_exception_cannot_be_read_is_called_again()
    {
        await using var schema = await postgres.NewSchemaAsync();
        var handler = new ScriptedHandler(static (batch, _) => batch[0].Attempt == 1 ? throw new HostileException() : ValueTask.CompletedTask);
        var options = new PostgresQueueReceiverOptions
        {
            Schema = schema.Name,
            Queue = "tasks",
            Concurrency = 1,
            BatchSize = 1,
            RetryDelay = TimeSpan.FromMilliseconds(5),
            PollInterval = TimeSpan.FromMilliseconds(20),
        };
        await using var receiver = new PostgresQueueReceiver(schema.DataSource, options, handler);
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await schema.ExecuteAsync("insert into {s}.messages (queue, payload) select id, n::text::bytea from {s}.queues, generate_series(1, 3) as n");

        await Until.TrueAsync(() => receiver.GetStatistics().CompletedMessages == 3);
        Assert.Equal(3, receiver.GetStatistics().RetriedMessages);
        Assert.Equal(["1:1", "1:2", "2:1", "2:2", "3:1", "3:2"], handler.Handled.Order(StringComparer.Ordinal));
    }

    [Fact]
    public async Task An_outbox_whose_next_transport_throws_what_cannot_be_read_sends_again_and_names_it()
    {
        await using var schema = await postgres.NewSchemaAsync();
        var arrived = new CollectingTransport();
        var next = new ScriptedTransport(arrived).Fail(exception: new HostileException());
        var stalled = next.Stall();
        await using var outbox = new PostgresOutbox(schema.DataSource, next, new PostgresOutboxOptions { Schema = schema.Name, PollInterval = TimeSpan.FromMilliseconds(20) });
        await outbox.EnqueueAsync(Room, [Some.Message("one")], cancellationToken: TestContext.Current.CancellationToken);

        await outbox.StartAsync(TestContext.Current.CancellationToken).WithinDeadline();
        await stalled.EnteredAsync();
        var fault = outbox.Fault;
        stalled.Release();

        await arrived.WaitForMessagesAsync(1);
        Assert.Contains(nameof(HostileException), fault, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_cancellation_callback_of_a_handler_that_throws_ends_neither_renewal_nor_the_stop()
    {
        await using var schema = await postgres.NewSchemaAsync();
        var entered = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var handler = new ScriptedHandler(async (_, token) =>
        {
            using var registered = token.Register(static () => throw new InvalidOperationException("The callback fails."));
            entered.TrySetResult();
            await Task.Delay(Timeout.Infinite, token);
        });
        var options = new PostgresQueueReceiverOptions { Schema = schema.Name, Queue = "tasks", PollInterval = TimeSpan.FromMilliseconds(20), ClaimTimeLimit = TimeSpan.FromSeconds(1), StopTimeout = TimeSpan.Zero };
        var receiver = new PostgresQueueReceiver(schema.DataSource, options, handler);
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await schema.ExecuteAsync("insert into {s}.messages (queue, payload) select id, 'one' from {s}.queues");
        await entered.Task.WithinDeadline();

        // The claim ends, so renewal cancels its handler; then the message is claimed again. A renewal may come before the upkeep that ends it: again, then.
        foreach (var calls in new[] { 1, 2 })
        {
            await Until.TrueAsync(async () =>
            {
                await schema.ExecuteAsync("update {s}.claims set until = now() - interval '1 minute'");
                return handler.Handled.Count >= calls;
            });
        }

        await receiver.DisposeAsync().WithinDeadline();
    }

    [Fact]
    public async Task A_cancellation_callback_of_a_transport_that_throws_at_the_time_limit_ends_neither_the_outbox_nor_the_process()
    {
        await using var schema = await postgres.NewSchemaAsync();
        var arrived = new CollectingTransport();
        var options = new PostgresOutboxOptions { Schema = schema.Name, PollInterval = TimeSpan.FromMilliseconds(20), SendTimeout = TimeSpan.FromMilliseconds(100) };
        await using var outbox = new PostgresOutbox(schema.DataSource, new SlowOnceTransport(arrived), options);
        await outbox.EnqueueAsync(Room, [Some.Message("one")], cancellationToken: TestContext.Current.CancellationToken);

        await outbox.StartAsync(TestContext.Current.CancellationToken).WithinDeadline();

        await arrived.WaitForMessagesAsync(1);
    }

    [Fact]
    public void A_timer_that_fires_early_ends_no_time_limit()
    {
        var clock = new EarlyTimers();
        using var limit = new TimeLimit(TimeSpan.FromSeconds(10), clock, CancellationToken.None);

        clock.Fire();
        var early = limit.IsOver;
        clock.Now = TimeSpan.FromSeconds(10).Ticks;
        clock.Fire();

        Assert.False(early);
        Assert.True(limit.IsOver);
        Assert.Equal([TimeSpan.FromSeconds(10), TimeSpan.FromSeconds(10)], clock.Set);
    }

    [Fact]
    public async Task Settings_that_change_after_the_start_have_no_effect()
    {
        await using var schema = await postgres.NewSchemaAsync();
        var arrived = new CollectingTransport();
        var outboxOptions = new PostgresOutboxOptions { Schema = schema.Name, PollInterval = TimeSpan.FromMilliseconds(50) };
        var options = new PostgresOptions { Schema = schema.Name, QueueShards = { ["room"] = 3 } };
        await using var outbox = new PostgresOutbox(schema.DataSource, arrived, outboxOptions);
        await using var transport = new PostgresQueueTransport(schema.DataSource, options);

        (outboxOptions.Schema, outboxOptions.Name, outboxOptions.SendTimeout) = ("other", "other", TimeSpan.Zero);
        (options.Schema, options.FrameQueue, options.CommandTimeout, options.MaxStatementBytes) = ("other", "other", TimeSpan.Zero, 0);
        options.QueueShards.Clear();
        await outbox.EnqueueAsync(Room, [Some.Message("one")], cancellationToken: TestContext.Current.CancellationToken);
        await outbox.StartAsync(TestContext.Current.CancellationToken).WithinDeadline();
        await transport.SendAsync(new[] { Some.Batch(Room, Some.Producer(), 1, "two") }, TestContext.Current.CancellationToken);
        await arrived.WaitForMessagesAsync(1);

        Assert.Equal(["outbox 1", "room 3"], await schema.ColumnAsync<string>("select name || ' ' || shards from {s}.queues order by name"));
    }

    [Fact]
    public async Task A_transport_sends_and_notifies_with_a_pool_of_one_connection()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using var pool = NpgsqlDataSource.Create($"{schema.DataSource.ConnectionString};Maximum Pool Size=1");
        var producer = Some.Producer();
        await using var transport = new PostgresQueueTransport(pool, new PostgresOptions { Schema = schema.Name });

        for (var number = 1; number <= 5; number++)
            await transport.SendAsync(new[] { Some.Batch(OutputHandle.Named($"queue {number}"), producer, number, "one") }, TestContext.Current.CancellationToken).WithinDeadline();

        Assert.Equal(5L, await schema.ScalarAsync<long>("select count(*) from {s}.messages"));
    }

    [Fact]
    public async Task A_receiver_on_a_pool_of_one_connection_says_how_many_it_needs()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using var pool = NpgsqlDataSource.Create($"{schema.DataSource.ConnectionString};Maximum Pool Size=1;Timeout=1");
        await using var receiver = new PostgresQueueReceiver(pool, new PostgresQueueReceiverOptions { Schema = schema.Name, Queue = "tasks", PollInterval = TimeSpan.FromMilliseconds(20) }, new ScriptedHandler());

        await receiver.StartAsync(CancellationToken.None).WithinDeadline();

        await Until.TrueAsync(() => (receiver.Fault ?? receiver.Degradation)?.Contains("this receiver needs 4 connections", StringComparison.Ordinal) == true);
    }

    [Fact]
    public async Task Rights_that_are_taken_away_are_a_fault_that_names_them_until_they_are_back()
    {
        await using var schema = await postgres.NewTablesAsync();
        var user = schema.Name;
        await using var dataSource = await schema.OpenAsOwnRoleAsync();
        var handler = new KeepingHandler();
        var receiver = new PostgresQueueReceiver(
            dataSource, new PostgresQueueReceiverOptions { Schema = schema.Name, Queue = "tasks", Concurrency = 1, PollInterval = TimeSpan.FromMilliseconds(20), MaxReconnectDelay = TimeSpan.FromMilliseconds(200) }, handler);
        var transport = new PostgresQueueTransport(dataSource, new PostgresOptions { Schema = schema.Name });
        var producer = Some.Producer();
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await transport.SendAsync(new[] { Some.Batch(OutputHandle.Named("tasks"), producer, 1, "one") }, TestContext.Current.CancellationToken);
        await handler.WaitForAsync(1);

        await schema.ExecuteAsync($"revoke all on {{s}}.messages from {user}");
        var error = await Assert.ThrowsAsync<IOException>(() => transport.SendAsync(new[] { Some.Batch(OutputHandle.Named("tasks"), producer, 2, "two") }, TestContext.Current.CancellationToken).AsTask());
        await Until.TrueAsync(() => receiver.Fault?.Contains("permission denied for table messages", StringComparison.Ordinal) == true);
        await schema.ExecuteAsync($"grant all on {{s}}.messages to {user}");
        await transport.SendAsync(new[] { Some.Batch(OutputHandle.Named("tasks"), producer, 2, "two") }, TestContext.Current.CancellationToken);
        await handler.WaitForAsync(1);
        await Until.TrueAsync(() => receiver.Fault is null);

        await receiver.DisposeAsync();
        await transport.DisposeAsync();
        await schema.ExecuteAsync($"drop owned by {user}; drop role {user}");
        Assert.Contains("permission denied for table messages", error.Message, StringComparison.Ordinal);
        Assert.Equal(["one", "two"], handler.Texts);
    }

    private static string NotificationChannelOf(TestSchema schema) => NotificationChannel.Of(new Tables(schema.Name));

    /// <summary>A transport whose first send hangs until it is cancelled, with a callback that throws.</summary>
    private sealed class SlowOnceTransport(IBatchTransport next) : IBatchTransport
    {
        private int _sends;

        public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            if (Interlocked.Increment(ref _sends) > 1)
            {
                await next.SendAsync(batches, cancellationToken);
                return;
            }

            using var registered = cancellationToken.Register(static () => throw new InvalidOperationException("The callback fails."));
            await Task.Delay(Timeout.Infinite, cancellationToken);
        }
    }

    /// <summary>A clock with one timer, which fires when the test says so.</summary>
    private sealed class EarlyTimers : TimeProvider, ITimer
    {
        private TimerCallback? _callback;
        private object? _state;

        public long Now { get; set; }

        public List<TimeSpan> Set { get; } = [];

        public override long TimestampFrequency => TimeSpan.TicksPerSecond;

        public override long GetTimestamp() => Now;

        public override ITimer CreateTimer(TimerCallback callback, object? state, TimeSpan dueTime, TimeSpan period)
        {
            (_callback, _state) = (callback, state);
            return this;
        }

        public void Fire() => _callback!(_state);

        public bool Change(TimeSpan dueTime, TimeSpan period)
        {
            Set.Add(dueTime);
            return true;
        }

        public void Dispose()
        {
            // It holds nothing.
        }

        public ValueTask DisposeAsync() => ValueTask.CompletedTask;
    }
}
