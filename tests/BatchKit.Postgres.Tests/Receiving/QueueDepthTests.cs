using BatchKit.Postgres.Receiving;
using BatchKit.Postgres.Schema;
using BatchKit.Postgres.Tests.Ordered;
using BatchKit.Testing;

namespace BatchKit.Postgres.Tests.Receiving;

public sealed class QueueDepthTests(PostgresFixture fixture)
{
    [Fact]
    public async Task A_queue_has_what_is_ready_delayed_and_dead_and_the_age_of_the_oldest()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture, static options => options.BatchSize = 1);
        await scene.InsertAsync(rank: 5, "low", "low");
        await scene.InsertAsync(rank: -3, "high");
        await scene.InsertDelayedAsync("later", TimeSpan.FromHours(1));
        await scene.InsertRetryAsync("again", attempts: 2);
        await scene.Schema.ExecuteAsync($"insert into {{s}}.dead (id, queue, enqueued_at, rank, attempts, error, payload) values (77, {scene.Queue.Id}, now(), 0, 1, 'why', 'x')");
        await scene.Schema.ExecuteAsync("insert into {s}.queues (name) values ('other')");
        await scene.Schema.ExecuteAsync("insert into {s}.messages (queue, payload, enqueued_at) select max(id), 'x', now() - interval '9 days' from {s}.queues");
        await scene.Schema.ExecuteAsync("update {s}.messages set enqueued_at = now() - interval '1 hour' where rank = 5 and id = (select min(id) from {s}.messages where rank = 5)");

        var depth = await ReadAsync(scene);
        await scene.Schema.ExecuteAsync("update {s}.messages set enqueued_at = now() - interval '2 hours' where rank = -3");
        var claim = await scene.ClaimAsync();
        var claimed = await ReadAsync(scene);

        Assert.Equal((3, 2, 1), (depth.Ready, depth.Delayed, depth.Dead));
        Assert.InRange(depth.OldestAge, TimeSpan.FromMinutes(60), TimeSpan.FromMinutes(70));
        Assert.Equal("high", Assert.Single(ClaimScene.TextsOf(claim!)));
        Assert.Equal(2, claimed.Ready);
        Assert.InRange(claimed.OldestAge, TimeSpan.FromMinutes(120), TimeSpan.FromMinutes(130));
    }

    [Fact]
    public async Task An_empty_queue_has_no_oldest_message()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);

        Assert.Equal(new QueueDepth(0, 0, 0, TimeSpan.Zero), await ReadAsync(scene));
    }

    [Fact]
    public async Task In_an_ordered_queue_a_leased_batch_is_not_ready_and_has_its_age()
    {
        await using var queue = await OrderedQueue.OpenAsync(await fixture.GetAsync(), shards: 2, configure: static options => options.BatchSize = 1);
        await queue.AddAsync("a:1", "a:2", "b:3", "c:4");
        await queue.Schema.ExecuteAsync("update {s}.messages set enqueued_at = now() - interval '1 hour' where id = 1");
        await queue.Schema.ExecuteAsync("update {s}.messages set due_at = now() + interval '1 hour' where id = 4");
        var claim = await queue.TakeAsync();
        await using var connection = new CareConnection(queue.Schema.DataSource, TimeProvider.System);
        var options = new PostgresQueueReceiverOptions();
        var reader = new QueueDepthReader(queue.Schema.Name, options, TimeProvider.System);

        await reader.ReadWhenOldAsync(connection, queue.Entry, TestContext.Current.CancellationToken);

        Assert.NotNull(claim);
        Assert.Equal((2, 1, 0), (reader.Last!.Ready, reader.Last.Delayed, reader.Last.Dead));
        Assert.InRange(reader.Last.OldestAge, TimeSpan.FromMinutes(60), TimeSpan.FromMinutes(70));
    }

    [Fact]
    public async Task Counting_ends_at_its_limit_and_is_not_repeated_before_its_time()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        await scene.Schema.ExecuteAsync($"insert into {{s}}.messages (queue, payload) select {scene.Queue.Id}, 'x' from generate_series(1, {QueueDepthReader.Most + 10})");
        var clock = new ManualTimeProvider();
        await using var connection = new CareConnection(scene.Schema.DataSource, TimeProvider.System);
        var reader = new QueueDepthReader(scene.Schema.Name, scene.Options, clock);

        await reader.ReadWhenOldAsync(connection, scene.Queue, TestContext.Current.CancellationToken);
        var first = reader.Last;
        await scene.Schema.ExecuteAsync("truncate {s}.messages");
        clock.Advance(TimeSpan.FromSeconds(14));
        await reader.ReadWhenOldAsync(connection, scene.Queue, TestContext.Current.CancellationToken);
        var second = reader.Last;
        clock.Advance(TimeSpan.FromSeconds(1));
        await reader.ReadWhenOldAsync(connection, scene.Queue, TestContext.Current.CancellationToken);

        Assert.Equal(QueueDepthReader.Most, first!.Ready);
        Assert.Same(first, second);
        Assert.Equal(0, reader.Last!.Ready);
    }

    [Fact]
    public async Task Counting_that_takes_too_long_ends_and_leaves_the_age()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture, static options => options.ClaimTimeLimit = TimeSpan.FromSeconds(1));
        await using var connection = new CareConnection(scene.Schema.DataSource, TimeProvider.System);
        var clock = new ManualTimeProvider();
        var reader = new QueueDepthReader(scene.Schema.Name, scene.Options, clock);
        await scene.InsertAsync("old");
        await scene.Schema.ExecuteAsync("update {s}.messages set enqueued_at = now() - interval '1 hour'");
        await ReadAsync();
        await using var transaction = await scene.Connection.BeginTransactionAsync(TestContext.Current.CancellationToken);
        await using var command = new Npgsql.NpgsqlCommand($"lock table \"{scene.Schema.Name}\".dead", scene.Connection);
        await command.ExecuteNonQueryAsync(TestContext.Current.CancellationToken);
        clock.Advance(TimeSpan.FromSeconds(15));

        await reader.ReadWhenOldAsync(connection, scene.Queue, TestContext.Current.CancellationToken).WithinDeadline();
        var locked = reader.Last;
        await transaction.RollbackAsync(TestContext.Current.CancellationToken);
        await ReadAsync();

        Assert.False(locked!.HasCounts);
        Assert.InRange(locked.OldestAge, TimeSpan.FromMinutes(60), TimeSpan.FromMinutes(70));

        // On a busy machine one may take longer than the limit.
        Task ReadAsync() => Until.TrueAsync(async () =>
        {
            clock.Advance(TimeSpan.FromSeconds(15));
            await reader.ReadWhenOldAsync(connection, scene.Queue, TestContext.Current.CancellationToken);
            return reader.Last is { HasCounts: true };
        });
    }

    private static async Task<QueueDepth> ReadAsync(ClaimScene scene)
    {
        await using var connection = new CareConnection(scene.Schema.DataSource, TimeProvider.System);
        var reader = new QueueDepthReader(scene.Schema.Name, scene.Options, TimeProvider.System);
        await reader.ReadWhenOldAsync(connection, scene.Queue, TestContext.Current.CancellationToken);
        return reader.Last!;
    }
}
