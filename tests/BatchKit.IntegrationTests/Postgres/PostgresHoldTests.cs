using System.Globalization;
using BatchKit.Postgres;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using BatchKit.TestServers.QueueWorker;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>Workers that are killed and frozen lose nothing, and complete nothing twice.</summary>
[Collection(PostgresHoldCollection.Name)]
[Trait("Lane", "faults: workers are killed and frozen again and again")]
public sealed class PostgresHoldTests(ITestOutputHelper report) : IDisposable
{
    /// <summary>How often a worker is killed: 5 times unless this environment variable says otherwise.</summary>
    private const string KillsVariable = "BATCHKIT_TEST_KILLS";

    /// <summary>How many tasks there are: 40,000 unless this environment variable says otherwise.</summary>
    private const string TasksVariable = "BATCHKIT_TEST_TASKS";

    /// <summary>How often a worker is frozen: 3 times unless this environment variable says otherwise.</summary>
    private const string FreezesVariable = "BATCHKIT_TEST_FREEZES";

    private const int Workers = 8;

    // More than the workers handle while one of them is frozen, so that each freeze meets work.
    private const int TasksPerFreeze = 1500;

    private static readonly TimeSpan ClaimTimeLimit = TimeSpan.FromSeconds(2);

    // Claims that have ended are looked for each second. What is more is for a machine that runs ten processes on two cores.
    private static readonly TimeSpan Poll = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan Allowance = TimeSpan.FromSeconds(5);

    private WorkerFleet? _fleet;

    private static int Kills => Read(KillsVariable, 5);

    private static int Tasks => Read(TasksVariable, 40_000);

    private static int Freezes => Read(FreezesVariable, 3);

    [Fact]
    public async Task Workers_that_are_killed_lose_no_task_and_complete_none_twice()
    {
        await using var server = await StartServerAsync();
        await using var schema = TestSchema.On(server);
        var (handlings, ledger) = await EnqueueAsync(schema, Tasks);
        _fleet = WorkerFleet.Start(Settings(server, schema, handlings) with { BatchSize = 50, HandlerTime = TimeSpan.FromMilliseconds(5) }, Workers);

        for (var kill = 1; kill <= Kills; kill++)
        {
            await Until.ReachedAsync(handlings.EstimateAsync, (long)kill * Tasks / (Kills + 1));
            await _fleet.ReplaceAsync(await WaitForWorkerInHandAsync(schema));
        }

        await WaitUntilEmptyAsync(ledger);
        var lost = await _fleet.StopAsync("lost");
        await ledger.CloseAsync();
        await ReportAsync(handlings, ledger, $"{Kills} kills, {lost} refused");
        await AssertEachCompletedOnceAsync(handlings, ledger, Tasks);
        Assert.NotEqual(0, await ledger.CountReturnedAsync());
        Assert.All((await ledger.ReadReturnTimesAsync())!, time => Assert.InRange(time, TimeSpan.Zero, Poll + Allowance));
        // What came back is claimed one by one, and shares the workers' time with what is fresh: how long the last of hundreds takes says how fast the machine is.
        Assert.InRange((await ledger.ReadRetakenTimesAsync())![0], TimeSpan.Zero, Poll + Allowance);
    }

    [Fact]
    public async Task A_worker_that_was_frozen_beyond_its_claim_completes_nothing_of_it()
    {
        await using var server = await StartServerAsync();
        await using var schema = TestSchema.On(server);
        var tasks = TasksPerFreeze * Freezes;
        var (handlings, ledger) = await EnqueueAsync(schema, tasks);
        var settings = Settings(server, schema, handlings) with { Concurrency = 2, BatchSize = 20, ClaimTimeLimit = TimeSpan.FromSeconds(1), HandlerTime = TimeSpan.FromMilliseconds(100) };
        _fleet = WorkerFleet.Start(settings, workers: 2);

        for (var freeze = 0; freeze < Freezes; freeze++)
        {
            var worker = _fleet.Workers[freeze % 2];
            var returned = await ledger.CountReturnedAsync();
            await FreezeInMidHandlingAsync(schema, worker);
            await Until.TrueAsync(async () => await ledger.CountReturnedAsync() > returned, handlings.EstimateAsync);
            worker.Thaw();
        }

        await WaitUntilEmptyAsync(ledger);
        var lost = await _fleet.StopAsync("lost");
        await ledger.CloseAsync();
        await ReportAsync(handlings, ledger, $"{Freezes} freezes, {lost} refused");
        await AssertEachCompletedOnceAsync(handlings, ledger, tasks);
        Assert.NotEqual(0, lost);
        Assert.True(await handlings.CountAsync() > tasks, "What the frozen worker had in hand was handled by another.");
    }

    public void Dispose() => _fleet?.Dispose();

    private static async Task<(HandlingTable Handlings, ClaimLedger Ledger)> EnqueueAsync(TestSchema schema, int tasks)
    {
        await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name);
        await using (var transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name }))
        {
            await using var output = new OutputBuffer(transport);
            for (var number = 0; number < tasks; number++)
                await output.WriteAsync(OutputHandle.Named("tasks"), Some.Bytes(number.ToString(CultureInfo.InvariantCulture)));
            await output.FlushAsync().WithinDeadline();
        }

        return (await HandlingTable.CreateAsync(schema), await ClaimLedger.BeginAsync(schema));
    }

    private static QueueWorkerSettings Settings(PostgresServer server, TestSchema schema, HandlingTable handlings) => new()
    {
        ConnectionString = server.ConnectionString,
        Schema = schema.Name,
        Queue = "tasks",
        Table = handlings.Name,
        ClaimTimeLimit = ClaimTimeLimit,
        PollInterval = Poll,
    };

    /// <summary>Some worker that has begun to handle what it has not completed.</summary>
    private async Task<QueueWorkerProcess> WaitForWorkerInHandAsync(TestSchema schema)
    {
        QueueWorkerProcess? found = null;
        await Until.TrueAsync(async () =>
        {
            var processes = await ReadProcessesInHandAsync(schema);
            found = _fleet!.Workers.Where(worker => processes.Contains(worker.Id)).MinBy(_ => Random.Shared.Next());
            return found is not null;
        });
        return found!;
    }

    private static async Task FreezeInMidHandlingAsync(TestSchema schema, QueueWorkerProcess worker)
    {
        await Until.TrueAsync(async () =>
        {
            worker.Freeze();
            if ((await ReadProcessesInHandAsync(schema)).Contains(worker.Id))
                return true;
            worker.Thaw();
            return false;
        });
    }

    private static async Task<List<int>> ReadProcessesInHandAsync(TestSchema schema) => await schema.ColumnAsync<int>("""
        select distinct h.process from {s}.claims c cross join unnest(c.ids) as u(id)
        join (select id, attempt, process from {s}.handlings order by place desc limit 2000) h on h.id = u.id and h.attempt = c.attempts + 1
        """);

    private static async Task WaitUntilEmptyAsync(ClaimLedger ledger)
    {
        var left = await ledger.CountLeftAsync();
        await Until.TrueAsync(async () => (left = await ledger.CountLeftAsync()) is (0, 0, _), () => Task.FromResult(left.Waiting));
    }

    private static async Task AssertEachCompletedOnceAsync(HandlingTable handlings, ClaimLedger ledger, int tasks)
    {
        Assert.Equal((0, 0, 0), await ledger.CountLeftAsync());
        Assert.Equal(tasks, await handlings.CountNumbersAsync());
        Assert.Equal(0, await handlings.CountStoredTwiceAsync());
        Assert.Equal(tasks, await ledger.CountCompletedAsync());
        Assert.Equal(0, await ledger.CountCompletedTwiceAsync());
    }

    private async Task ReportAsync(HandlingTable handlings, ClaimLedger ledger, string what)
    {
        var (returned, retaken) = (await ledger.ReadReturnTimesAsync(), await ledger.ReadRetakenTimesAsync());
        report.WriteLine($"""
            {what}: {await ledger.CountCompletedAsync():N0} completed, {await ledger.CountCompletedTwiceAsync()} twice, {await handlings.CountAsync():N0} handlings, {await ledger.CountReturnedAsync():N0} came back
            after their claims' time: back {Format(returned)}, handled again {Format(retaken)}
            """);
    }

    private static string Format(TimeSpan[]? times) =>
        times is [var median, var latest] ? $"{median.TotalSeconds:0.000} s (median), {latest.TotalSeconds:0.000} s (latest)" : "never";

    private static int Read(string variable, int usual) => int.Parse(Environment.GetEnvironmentVariable(variable) ?? usual.ToString(CultureInfo.InvariantCulture), CultureInfo.InvariantCulture);

    private static Task<PostgresServer> StartServerAsync()
    {
        RequiredServer.SkipWhen(PostgresServer.WhyNotInstalled);
        return PostgresServer.StartOwnAsync();
    }
}
