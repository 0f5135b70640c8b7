using System.Globalization;
using BatchKit.Postgres;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using BatchKit.TestServers.QueueWorker;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>Workers of an ordered queue that are killed keep the order of each key.</summary>
[Collection(PostgresHoldCollection.Name)]
[Trait("Lane", "faults: workers are killed again and again")]
public sealed class OrderedHoldTests(ITestOutputHelper report) : IDisposable
{
    /// <summary>How often a worker is killed: 5 times unless this environment variable says otherwise.</summary>
    private const string KillsVariable = "BATCHKIT_TEST_KILLS";

    private const string Queue = "ordered";
    private const int Workers = 8;
    private const int Shards = 32;
    private const int MessagesPerKey = 100;

    private WorkerFleet? _fleet;

    // Enough that each kill meets work.
    private static int Keys => Math.Min(1000, 80 * Kills);

    private static int Messages => Keys * MessagesPerKey;

    private static int Kills => int.Parse(Environment.GetEnvironmentVariable(KillsVariable) ?? "5", CultureInfo.InvariantCulture);

    [Fact]
    public async Task Workers_that_are_killed_complete_each_keys_messages_once_and_in_order()
    {
        RequiredServer.SkipWhen(PostgresServer.WhyNotInstalled);
        await using var server = await PostgresServer.StartOwnAsync();
        await using var schema = TestSchema.On(server);
        await EnqueueAsync(schema);
        var (handlings, ledger) = (await HandlingTable.CreateAsync(schema), await OrderLedger.BeginAsync(schema));
        // Every message whose number is a multiple of 50 fails at first, so that keys wait while workers die.
        var settings = new QueueWorkerSettings
        {
            ConnectionString = server.ConnectionString,
            Schema = schema.Name,
            Queue = Queue,
            Shards = Shards,
            Table = handlings.Name,
            Concurrency = 2,
            BatchSize = 50,
            HandlerTime = TimeSpan.FromMilliseconds(5),
            FailEvery = 50,
        };
        _fleet = WorkerFleet.Start(settings, Workers);

        for (var kill = 1; kill <= Kills; kill++)
        {
            await WaitForCompletedAsync(ledger, (long)kill * Messages / (Kills + 1));
            await _fleet.ReplaceAsync(await WaitForHolderAsync(schema));
        }

        await WaitForCompletedAsync(ledger, Messages);
        var again = await handlings.CountAsync() - Messages;
        report.WriteLine($"{Kills} kills, {again:N0} messages handled again");
        Assert.Equal((0, 0), await ledger.CountLeftAsync());
        Assert.Equal((Messages, Keys), (await ledger.CountCompletedAsync(), await ledger.CountKeysAsync()));
        Assert.Equal(0, await ledger.CountOutOfTurnAsync());
        Assert.Equal(0, await ledger.CountHandledOutOfOrderAsync());
        // Beyond those that fail at first, there are what was in the hands of the killed.
        Assert.True(again > Messages / settings.FailEvery, $"{again} messages were handled again.");
    }

    public void Dispose() => _fleet?.Dispose();

    private static async Task EnqueueAsync(TestSchema schema)
    {
        var keys = Enumerable.Range(0, Keys).Select(key => new MessageHeader { Key = $"key {key}" }).ToArray();
        var handle = OutputHandle.Named(Queue);
        await using var transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name, Shards = Shards });
        await using var output = new OutputBuffer(transport);
        for (var number = 0; number < MessagesPerKey; number++)
        {
            foreach (var key in keys)
                await output.WriteAsync(handle, Some.Bytes($"{number}"), key);
        }

        await output.FlushAsync().WithinDeadline();
    }

    /// <summary>Waits until so many are completed; each completion puts the deadline off.</summary>
    private static Task WaitForCompletedAsync(OrderLedger ledger, long count) => Until.ReachedAsync(ledger.EstimateAsync, count);

    /// <summary>One of the workers that hold a shard now.</summary>
    private async Task<QueueWorkerProcess> WaitForHolderAsync(TestSchema schema)
    {
        QueueWorkerProcess? holder = null;
        await Until.TrueAsync(async () =>
        {
            var holders = await schema.ColumnAsync<int>("""
                select distinct h.process from {s}.shards s cross join unnest(s.in_hand) as u(id)
                join (select id, attempt, process from {s}.handlings order by place desc limit 2000) h on h.id = u.id join {s}.messages m on m.id = u.id and h.attempt = m.attempts + 1
                where s.until is not null
                """);
            holder = _fleet!.Workers.Where(worker => holders.Contains(worker.Id)).MinBy(_ => Random.Shared.Next());
            return holder is not null;
        });
        return holder!;
    }
}
