using System.Diagnostics;
using System.Globalization;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using Npgsql;

namespace BatchKit.Postgres.Tests.Failover;

/// <summary>What holds when the primary is killed and its standby is promoted, for processes that know both.</summary>
[Trait("Lane", "faults: standbys are promoted one after another")]
public sealed class FailoverTests(PairFixture fixture, ITestOutputHelper log) : IClassFixture<PairFixture>
{
    /// <summary>How often a primary is killed in each test; once unless this environment variable says otherwise. The recovery times are in the test's output.</summary>
    private const string RoundsVariable = "BATCHKIT_TEST_FAILOVERS";

    private const int Several = 200;

    private static int Rounds => int.Parse(Environment.GetEnvironmentVariable(RoundsVariable) ?? "1", CultureInfo.InvariantCulture);

    [Fact]
    public async Task With_a_synchronous_standby_nothing_is_lost_and_everything_goes_on_by_itself()
    {
        var pair = await fixture.GetAsync();
        await using var path = await DurablePath.StartAsync(pair.ConnectionString);
        path.Write();

        await RepeatAsync(pair, path, pair.FailOverAsync);

        await path.StopWritingAsync();
        await Task.WhenAll(path.Flows.Select(flow => flow.WaitForAllAsync()));
        path.Queue.AssertAllArrived();
        path.Ordered.AssertAllArrivedInOrder();
        path.Outbox.AssertAllArrivedInOrder();
        Assert.Equal(path.Outbox.Count, path.Outbox.Arrived.Length);
    }

    [Fact]
    public async Task Without_a_synchronous_standby_only_what_had_not_reached_it_is_lost()
    {
        RequiredServer.SkipWhen(PostgresServer.WhyNotInstalled);
        await using var pair = await PostgresPair.StartAsync(isSynchronous: false);
        await using var path = await DurablePath.StartAsync(pair.ConnectionString);
        path.Write();
        var endangered = path.Flows.ToDictionary(flow => flow, _ => new List<(long From, long To)>());

        await RepeatAsync(pair, path, async () =>
        {
            var from = path.Flows.Select(flow => flow.Acknowledged).ToArray();
            await pair.WaitForStandbyAsync();
            pair.Standby!.Freeze();
            await path.WaitForMoreAsync(Several);
            var standby = pair.Standby;
            await pair.KillPrimaryAsync();
            // Each writer may have had one scope's commit on its way.
            foreach (var (flow, index) in path.Flows.Select((flow, index) => (flow, index)))
                endangered[flow].Add((from[index], flow.Acknowledged + Several));
            standby.Thaw();
            await pair.PromoteAsync();
        });

        await path.StopWritingAsync();
        await path.WaitUntilEmptyAsync();
        foreach (var flow in path.Flows)
        {
            log.WriteLine($"{flow.Handle.Name}: {flow.Missing.Length} of {flow.Acknowledged} lost");
            Assert.All(flow.Missing, number => Assert.Contains(endangered[flow], span => number >= span.From && number < span.To));
        }

        path.Ordered.AssertInOrder();
        path.Outbox.AssertInOrder();
    }

    [Theory]
    [InlineData(null)]
    [InlineData("frames")]
    public async Task A_send_is_not_acknowledged_before_the_synchronous_standby_has_it(string? frameQueue)
    {
        var pair = await fixture.GetAsync();
        await using var dataSource = NpgsqlDataSource.Create(pair.ConnectionString);
        var options = new PostgresOptions { Schema = Some.Name("test"), FrameQueue = frameQueue, CommandTimeout = TimeSpan.FromMilliseconds(300) };
        await using var transport = new PostgresQueueTransport(dataSource, options);
        await using var output = new OutputBuffer(transport, new OutputBufferOptions { RetryDelay = TimeSpan.FromMilliseconds(20), MaxRetryDelay = TimeSpan.FromMilliseconds(50) });
        output.Write(OutputHandle.Named("tasks"), "first"u8);
        await output.FlushAsync().WithinDeadline();

        pair.Standby!.Freeze();
        try
        {
            output.Write(OutputHandle.Named("tasks"), "second"u8);
            await Until.TrueAsync(() => output.GetStatistics().FailedSends >= 4);
            Assert.Equal(1, output.GetStatistics().AcknowledgedMessages);
        }
        finally
        {
            pair.Standby.Thaw();
        }

        await output.FlushAsync().WithinDeadline();
        var counts = await new PostgresQueueAdmin(dataSource, options.Schema).ListAsync(TestContext.Current.CancellationToken);
        Assert.Equal(2, counts.Sum(queue => queue.Ready));
    }

    [Fact]
    public async Task An_enqueue_whose_wait_for_the_standby_was_cut_fails()
    {
        var pair = await fixture.GetAsync();
        // The server's own limit cuts the wait, and the server then reports success.
        await using var dataSource = NpgsqlDataSource.Create($"{pair.ConnectionString};Options=-c statement_timeout=1000");
        await using var outbox = new PostgresOutbox(dataSource, new CollectingTransport(), new PostgresOutboxOptions { Schema = Some.Name("test") });
        await outbox.EnqueueAsync(OutputHandle.Named("room"), [Some.Message("first")], cancellationToken: TestContext.Current.CancellationToken);

        pair.Standby!.Freeze();
        try
        {
            var failure = await Assert.ThrowsAsync<NpgsqlException>(() => outbox.EnqueueAsync(OutputHandle.Named("room"), [Some.Message("second")], cancellationToken: TestContext.Current.CancellationToken));
            Assert.StartsWith("The server stopped waiting for its synchronous standby", failure.Message, StringComparison.Ordinal);
        }
        finally
        {
            pair.Standby.Thaw();
        }
    }

    [Fact]
    public async Task A_standby_that_is_named_first_is_passed_over()
    {
        var pair = await fixture.GetAsync();
        await using var path = await DurablePath.StartAsync($"Host=127.0.0.1:{pair.Standby!.Port},127.0.0.1:{pair.Primary.Port};Username=postgres;Database=postgres");
        path.Write();

        await path.WaitForMoreAsync(Several);

        await path.StopWritingAsync();
    }

    [Fact]
    public async Task A_listening_connection_leaves_a_server_that_has_become_read_only()
    {
        var pair = await fixture.GetAsync();
        await using var dataSource = NpgsqlDataSource.Create(pair.ConnectionString);
        var options = new PostgresQueueReceiverOptions
        {
            Schema = Some.Name("test"),
            Queue = "tasks",
            Concurrency = 1,
            ListenKeepAlive = TimeSpan.FromMilliseconds(100),
            ReconnectDelay = TimeSpan.FromMilliseconds(20),
            MaxReconnectDelay = TimeSpan.FromMilliseconds(100),
            // Only a notification, or a listener that comes back, finds work.
            PollInterval = TimeSpan.FromMinutes(5),
        };
        var handler = new KeepingHandler();
        await using var receiver = new PostgresQueueReceiver(dataSource, options, handler);
        await receiver.StartAsync(TestContext.Current.CancellationToken);
        await Until.TrueAsync(() => receiver.Fault is null && receiver.Degradation is null);

        await AlterAsync(pair, "set default_transaction_read_only = on");
        await Until.TrueAsync(() => receiver.Degradation is not null);
        await AlterAsync(pair, "reset default_transaction_read_only");
        await Until.TrueAsync(() => receiver.Degradation is null && receiver.Fault is null);
        await using var transport = new PostgresQueueTransport(dataSource, new PostgresOptions { Schema = options.Schema });
        await transport.SendAsync(new[] { Some.Batch(OutputHandle.Named("tasks"), Some.Producer(), 1, "one") }, TestContext.Current.CancellationToken);

        await handler.WaitForAsync(1);
    }

    private static async Task AlterAsync(PostgresPair pair, string what)
    {
        await using var dataSource = NpgsqlDataSource.Create(pair.Primary.ConnectionString);
        await using var connection = await dataSource.OpenConnectionAsync();
        foreach (var sql in (string[])["set default_transaction_read_only = off", $"alter system {what}", "select pg_reload_conf()"])
        {
            await using var command = new NpgsqlCommand(sql, connection);
            await command.ExecuteNonQueryAsync();
        }
    }

    private async Task RepeatAsync(PostgresPair pair, DurablePath path, Func<Task> failOver)
    {
        var pauses = new List<TimeSpan>();
        var promotions = new List<TimeSpan>();
        for (var round = 0; round < Rounds; round++)
        {
            await path.WaitForMoreAsync(Several);
            foreach (var flow in path.Flows)
                flow.TakeLongestPause();
            var began = Stopwatch.GetTimestamp();
            await failOver();
            promotions.Add(Stopwatch.GetElapsedTime(began));
            await path.WaitForMoreAsync(Several);
            pauses.AddRange(path.Flows.Select(flow => flow.TakeLongestPause()));
            await pair.MendAsync();
        }

        log.WriteLine($"{Rounds} failovers, killing and promoting: {Describe(promotions)}; longest pause of each path: {Describe(pauses)}");
        foreach (var flow in path.Flows)
            log.WriteLine($"{flow.Handle.Name}: {flow.Acknowledged} acknowledged, {flow.Count} arrived, {flow.Arrived.Length - flow.Count} of them again");
    }

    private static string Describe(List<TimeSpan> times)
    {
        times.Sort();
        return string.Create(CultureInfo.InvariantCulture, $"p50 {times[times.Count / 2].TotalSeconds:0.00} s, worst {times[^1].TotalSeconds:0.00} s");
    }
}
