using BatchKit.Postgres.Receiving;
using BatchKit.Testing;

namespace BatchKit.Postgres.Tests.Receiving;

public sealed class DeadReportTests(PostgresFixture fixture)
{
    [Fact]
    public void The_first_death_is_told_at_once_and_later_ones_together_once_a_minute()
    {
        var (clock, log) = (new ManualTimeProvider(), new LogCollector());
        var report = new DeadReport("tasks", clock, log);

        report.Died(1, "first");
        report.Died(30, "second");
        report.Died(19, "third");
        clock.Advance(TimeSpan.FromSeconds(59));
        report.Tell();
        var early = log.Count(2637);
        clock.Advance(TimeSpan.FromSeconds(1));
        report.Tell();
        report.Tell();

        Assert.Equal(1, early);
        Assert.Equal(
            ["Warning 1 messages of queue tasks were moved to the dead table; the last one because: first", "Warning 49 messages of queue tasks were moved to the dead table; the last one because: third"],
            log.Entries.Select(static entry => entry.Text.Trim()));
    }

    [Fact]
    public void The_end_of_a_session_tells_the_rest()
    {
        var log = new LogCollector();
        var report = new DeadReport("tasks", new ManualTimeProvider(), log);
        report.Died(1, "first");
        report.Died(2, "second");

        report.Tell(isLast: true);

        Assert.Equal(2, log.Count(2637));
    }

    [Fact]
    public void Health_tells_deaths_for_five_minutes_without_their_reasons()
    {
        var clock = new ManualTimeProvider();
        var report = new DeadReport("tasks", clock, new LogCollector());
        report.Died(1, "secret");
        clock.Advance(TimeSpan.FromMinutes(4));
        report.Died(2, "secret");
        clock.Advance(TimeSpan.FromMinutes(4));
        var recent = report.Degradation;
        clock.Advance(TimeSpan.FromMinutes(1));

        Assert.StartsWith("3 messages were moved to the dead table", recent, StringComparison.Ordinal);
        Assert.DoesNotContain("secret", recent, StringComparison.Ordinal);
        Assert.Null(report.Degradation);
    }

    [Theory]
    [InlineData(null, "No reason was given.")]
    [InlineData("one\r\nfail: two\u2028three\u001b[31m", "one  fail: two three [31m")]
    public void A_reason_ends_no_line_of_the_log(string? reason, string line) => Assert.Equal(line, ErrorText.Line(reason));

    [Fact]
    public void A_long_reason_is_cut() => Assert.Equal(300, ErrorText.Line(new string('x', 100_000)).Length);

    [Fact]
    public async Task Messages_that_use_up_their_attempts_are_told_with_their_reason_and_degrade_health()
    {
        var handler = new ScriptedHandler(static (_, _) => throw new HostileException());
        await using var scene = await ReceiverScene.OpenAsync(fixture, handler, static options => (options.MaxAttempts, options.BatchSize) = (1, 1));
        for (var number = 0; number < 50; number++)
            await scene.Claims.InsertAsync("a");

        await scene.StartAsync();
        await scene.UntilAsync(static statistics => statistics.BuriedMessages == 50);
        var degradation = scene.Receiver.Degradation;
        await scene.StopAsync();

        Assert.StartsWith("50 messages were moved to the dead table", degradation, StringComparison.Ordinal);
        Assert.Equal(2, scene.Log.Count(2637));
        Assert.Contains("because: HostileException: ", scene.Log.Text, StringComparison.Ordinal);
        Assert.Contains("49 messages of queue tasks", scene.Log.Text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Messages_of_crashed_workers_that_die_are_told()
    {
        await using var scene = await ReceiverScene.OpenAsync(fixture, new ScriptedHandler(), static options => options.MaxAttempts = 1);
        await scene.Claims.InsertAsync("a");
        await scene.Claims.ClaimAsync();
        await scene.Claims.EndClaimsAsync();

        await scene.StartAsync();
        await scene.Log.WaitForAsync(2637);

        Assert.Contains("crashed", scene.Log.Text, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(0, 1, "raise it or Concurrency.")]
    [InlineData(1, 4, "raise it.")]
    [InlineData(4, 1, "raise it or Concurrency.")]
    public async Task The_advice_names_Concurrency_where_more_handlers_could_run(int shards, int concurrency, string advice)
    {
        var options = new PostgresQueueReceiverOptions { Queue = "tasks", Shards = shards, Concurrency = concurrency };
        var clock = new ManualTimeProvider();
        await using var dataSource = Npgsql.NpgsqlDataSource.Create("Host=127.0.0.1;Port=1");
        using var stop = new StopPhases();
        var log = new LogCollector();
        var health = new ReceiverHealth(dataSource, options, log, new BatchKit.Transports.ConnectionReporter(changed: null, "receiver", "server", metrics: null, "postgresql", "tasks"));
        await using var parts = new ReceiverParts(dataSource, options, store: null!, new ReceiverCounters(), health, new Intake(options), stop, clock, log);
        var held = parts.Held.Add(new Claim(null!, token: 1, shard: 0, new QueueBatch([])), clock.GetTimestamp());
        held.HandlingSince = clock.GetTimestamp();

        clock.Advance(options.ClaimTimeLimit + TimeSpan.FromSeconds(1));

        Assert.EndsWith(advice, parts.SlowHandlers, StringComparison.Ordinal);
        parts.Held.Remove(held);
    }

    [Fact]
    public async Task An_outbox_whose_transport_is_slow_is_not_told_of_settings_that_it_does_not_have()
    {
        await using var schema = await fixture.NewTablesAsync();
        var clock = new ManualTimeProvider();
        var inner = new ScriptedTransport(new CollectingTransport());
        var stalled = inner.Stall();
        await using var outbox = new PostgresOutbox(schema.DataSource, inner, new PostgresOutboxOptions { Schema = schema.Name, SendTimeout = TimeSpan.FromHours(1) }, clock);
        await outbox.EnqueueAsync(OutputHandle.Named("room"), [Some.Message("line")], cancellationToken: TestContext.Current.CancellationToken);
        await outbox.StartAsync(TestContext.Current.CancellationToken).WithinDeadline();
        await stalled.EnteredAsync();

        clock.Advance(TimeSpan.FromSeconds(10.5));
        var degradation = outbox.Degradation;
        stalled.Release();

        Assert.Null(degradation);
    }

    [Theory]
    [InlineData(false, "All 2 handlers have run for longer than ClaimTimeLimit (00:00:30)")]
    [InlineData(true, "All 2 handlers have run for longer than HandlerTimeLimit (01:00:00)")]
    public async Task Health_says_when_all_handlers_have_run_for_long(bool hasLimit, string degradation)
    {
        var clock = new ManualTimeProvider();
        var (open, running) = (new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously), 0);
        var handler = new ScriptedHandler(async (_, _) =>
        {
            Interlocked.Increment(ref running);
            await open.Task;
        });
        await using var scene = await ReceiverScene.OpenAsync(
            fixture, handler, options => (options.BatchSize, options.HandlerTimeLimit) = (1, hasLimit ? TimeSpan.FromHours(1) : null), timeProvider: clock);
        await scene.Claims.InsertAsync("a", "b");
        await scene.StartAsync();
        await Until.TrueAsync(() => Volatile.Read(ref running) == 2);
        var healthy = scene.Receiver.Degradation;

        // A handler that is cancelled has another second.
        clock.Advance((hasLimit ? TimeSpan.FromHours(1) : TimeSpan.FromSeconds(30)) + TimeSpan.FromMilliseconds(500));
        var slow = scene.Receiver.Degradation;
        // Upkeep notices it at its next poll.
        await Until.TrueAsync(() =>
        {
            clock.Advance(TimeSpan.FromMilliseconds(1));
            return scene.Log.Count(2640) == 1;
        });
        open.SetResult();

        Assert.Null(healthy);
        Assert.StartsWith(degradation, slow, StringComparison.Ordinal);
    }
}
