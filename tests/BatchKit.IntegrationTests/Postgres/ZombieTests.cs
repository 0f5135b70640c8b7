using BatchKit.Postgres;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>A worker whose own clock says that its claims last, while the server's says that they ended: only the server can refuse it.</summary>
[Trait("Lane", "faults: a worker is frozen beyond its claim")]
public sealed class ZombieTests(PostgresFixture fixture)
{
    private const int Messages = 100;

    private static readonly TimeSpan EndsSoon = TimeSpan.FromSeconds(2);

    // Also where a machine stands still for a while.
    private static readonly TimeSpan Lasts = TimeSpan.FromMinutes(1);

    [Theory]
    [InlineData(0)]
    [InlineData(4)]
    public async Task What_a_worker_settles_after_its_claims_ended_is_refused_by_the_server(int shards)
    {
        await using var schema = await fixture.NewSchemaAsync();
        await SendAsync(schema, shards);
        var gate = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var (late, other) = (new NumberedHandler { Gate = gate.Task }, new NumberedHandler());
        await using var zombie = new PostgresQueueReceiver(schema.DataSource, Options(schema, shards, EndsSoon), late, new ManualTimeProvider());
        await zombie.StartAsync(CancellationToken.None).WithinDeadline();
        await Until.TrueAsync(() => zombie.GetStatistics().HandlingMessages == Messages);

        await using var worker = new PostgresQueueReceiver(schema.DataSource, Options(schema, shards, Lasts), other);
        await worker.StartAsync(CancellationToken.None).WithinDeadline();
        await other.WaitForCountAsync(Messages);
        await Until.TrueAsync(() => worker.GetStatistics().CompletedMessages == Messages);
        gate.SetResult();
        await Until.TrueAsync(() => zombie.GetStatistics().LostMessages == Messages);

        Assert.Equal(Messages, late.Count);
        Assert.Equal(0, zombie.GetStatistics().CompletedMessages);
        Assert.Equal((Messages, 0), (worker.GetStatistics().CompletedMessages, worker.GetStatistics().LostMessages));
        Assert.Equal(0, await CountLeftAsync(schema));
    }

    [Theory]
    [InlineData(0)]
    [InlineData(4)]
    public async Task What_a_zombie_says_while_another_has_its_messages_in_hand_changes_nothing(int shards)
    {
        await using var schema = await fixture.NewSchemaAsync();
        await SendAsync(schema, shards);
        var (gate, otherGate) = (new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously), new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously));
        var (late, other) = (new NumberedHandler { Gate = gate.Task }, new NumberedHandler { Gate = otherGate.Task });
        await using var zombie = new PostgresQueueReceiver(schema.DataSource, Options(schema, shards, EndsSoon), late, new ManualTimeProvider());
        await zombie.StartAsync(CancellationToken.None).WithinDeadline();
        await Until.TrueAsync(() => zombie.GetStatistics().HandlingMessages == Messages);

        await using var worker = new PostgresQueueReceiver(schema.DataSource, Options(schema, shards, Lasts), other);
        await worker.StartAsync(CancellationToken.None).WithinDeadline();
        await Until.TrueAsync(() => worker.GetStatistics().HandlingMessages > 0);
        gate.SetResult();
        await Until.TrueAsync(() => zombie.GetStatistics().LostMessages == Messages);
        Assert.Equal(0, other.Count);
        otherGate.SetResult();
        // Of those that came back some may be the zombie's again, in claims that last.
        await Until.TrueAsync(() => worker.GetStatistics().CompletedMessages + zombie.GetStatistics().CompletedMessages >= Messages);

        Assert.Equal(Messages, worker.GetStatistics().CompletedMessages + zombie.GetStatistics().CompletedMessages);
        Assert.Equal((Messages, 0), (zombie.GetStatistics().LostMessages, worker.GetStatistics().LostMessages));
        Assert.Equal(0, await CountLeftAsync(schema));
    }

    private static Task<long> CountLeftAsync(TestSchema schema) =>
        schema.ScalarAsync<long>("select (select count(*) from {s}.messages) + (select count(*) from {s}.claims) + (select count(*) from {s}.dead)");

    private static async Task SendAsync(TestSchema schema, int shards)
    {
        await using var transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name, Shards = shards });
        await transport.SendAsync(new[] { Some.Batch(OutputHandle.Named("tasks"), Some.Producer(), number: 1, [.. Enumerable.Range(0, Messages).Select(number => $"{number}")]) }, CancellationToken.None).WithinDeadline();
    }

    private static PostgresQueueReceiverOptions Options(TestSchema schema, int shards, TimeSpan claimTimeLimit) => new()
    {
        Schema = schema.Name,
        Queue = "tasks",
        Shards = shards,
        Concurrency = 1,
        BatchSize = Messages,
        ClaimTimeLimit = claimTimeLimit,
        MaxAttempts = 100,
    };
}
