using System.Text;
using BatchKit.Postgres;
using BatchKit.TestServers.Postgres;

namespace BatchKit.IntegrationTests.Postgres;

public sealed class PostgresQueueAdminTests(PostgresFixture fixture) : IAsyncLifetime
{
    private TestSchema? _schema;

    private TestSchema Schema => _schema!;

    private PostgresQueueAdmin Admin => new(Schema.DataSource, Schema.Name);

    public async ValueTask InitializeAsync()
    {
        _schema = await fixture.NewSchemaAsync();
        await PostgresSchema.EnsureSchemaAsync(_schema.DataSource, _schema.Name);
    }

    public ValueTask DisposeAsync() => _schema?.DisposeAsync() ?? ValueTask.CompletedTask;

    [Fact]
    public async Task Messages_are_counted_by_state()
    {
        var rows = await QueueRows.CreateAsync(Schema);
        await rows.AddAsync();
        await rows.AddAsync(dueIn: -1);
        await rows.AddAsync(dueIn: 3600);
        await rows.ClaimAsync(3, TimeSpan.FromHours(2));
        await rows.ClaimAsync(1, TimeSpan.FromHours(1));
        await rows.BuryAsync(7);
        await QueueRows.CreateAsync(Schema, "empty", shards: 4);

        var counts = await Admin.ListAsync();

        Assert.Equal(["empty", "tasks"], counts.Select(queue => queue.Queue));
        Assert.Equal(new QueueCounts("empty", 4, 0, 0, 0, 0, null), counts[0]);
        Assert.Equal(new QueueCounts("tasks", 0, 2, 1, 4, 1, null), counts[1] with { OldestAge = null });
        Assert.InRange(counts[1].OldestAge!.Value, TimeSpan.FromHours(2), TimeSpan.FromHours(3));
    }

    [Fact]
    public async Task What_a_leased_shard_has_in_hand_is_claimed()
    {
        var rows = await QueueRows.CreateAsync(Schema, shards: 2);
        await rows.LeaseAsync(0, isLeased: true, await rows.AddAsync(shard: 0, key: "a"), await rows.AddAsync(shard: 0, key: "b"));
        await rows.LeaseAsync(1, isLeased: false, await rows.AddAsync(shard: 1, key: "c"));
        await rows.AddAsync(shard: 0, key: "a");

        var counts = Assert.Single(await Admin.ListAsync());

        Assert.Equal((2, 0, 2), (counts.Ready, counts.Delayed, counts.Claimed));
    }

    [Fact]
    public async Task What_waits_behind_a_delayed_message_of_its_key_is_delayed()
    {
        var rows = await QueueRows.CreateAsync(Schema, shards: 1);
        await rows.AddAsync(shard: 0, key: "a");
        await rows.AddAsync(shard: 0, key: "a", dueIn: 3600);
        await rows.AddAsync(shard: 0, key: "a");
        await rows.AddAsync(shard: 0, key: "b");
        await rows.AddAsync(shard: 0);

        var counts = Assert.Single(await Admin.ListAsync());

        Assert.Equal((3, 2), (counts.Ready, counts.Delayed));
    }

    [Fact]
    public async Task Dead_messages_are_read_the_latest_first()
    {
        var rows = await QueueRows.CreateAsync(Schema);
        await rows.BuryAsync(1, secondsAgo: 10);
        await rows.BuryAsync(2, "päylöad", "It was late.", key: "npc", secondsAgo: 5);
        await rows.BuryAsync(3, secondsAgo: 20);

        var dead = await Admin.ListDeadAsync("tasks", limit: 2);

        Assert.Equal([2, 1], dead.Select(message => message.Id));
        Assert.Equal(("npc", 5, "It was late.", "päylöad"), (dead[0].Key, dead[0].Attempts, dead[0].Error, Encoding.UTF8.GetString(dead[0].Payload.Span)));
        Assert.True(dead[0].EnqueuedAt < dead[0].DiedAt);
        await Assert.ThrowsAsync<ArgumentOutOfRangeException>(() => Admin.ListDeadAsync("tasks", limit: 0));
    }

    [Fact]
    public async Task Replay_brings_messages_back_as_new()
    {
        var rows = await QueueRows.CreateAsync(Schema);
        await rows.BuryAsync(1_000_002, "b", key: "npc");
        await rows.BuryAsync(1_000_001, "a");
        await rows.BuryAsync(1_000_003, "c");

        var some = await Admin.ReplayAsync("tasks", [1_000_002, 1_000_003, 4]);
        var left = await Admin.ReplayAsync("tasks");
        var none = await Admin.ReplayAsync("tasks");

        Assert.Equal((2, 1, 0), (some, left, none));
        Assert.Equal(
            ["1000001 a 0 -3", "1000002 b 0 -3 npc", "1000003 c 0 -3"],
            await Schema.ColumnAsync<string>("select concat_ws(' ', id, convert_from(payload, 'UTF8'), attempts, rank, key, due_at, error) from {s}.messages order by id"));
        Assert.Equal(0, await Schema.ScalarAsync<long>("select count(*) from {s}.dead"));
    }

    [Fact]
    public async Task Replay_leaves_messages_whose_uniqueness_key_is_in_use()
    {
        var rows = await QueueRows.CreateAsync(Schema);
        await rows.AddAsync(uniqueKey: "taken");
        await rows.BuryAsync(1_000_001, uniqueKey: "taken");
        await rows.BuryAsync(1_000_002, uniqueKey: "free");
        await rows.BuryAsync(1_000_003, uniqueKey: "free");

        var replayed = await Admin.ReplayAsync("tasks");

        Assert.Equal(1, replayed);
        Assert.Equal([1_000_001L, 1_000_003L], await Schema.ColumnAsync<long>("select id from {s}.dead order by id"));
        Assert.Equal(["free", "taken"], await Schema.ColumnAsync<string>("select key from {s}.unique_keys order by key"));
    }

    [Fact]
    public async Task Dead_messages_are_deleted_by_number_or_all()
    {
        var rows = await QueueRows.CreateAsync(Schema);
        var others = await QueueRows.CreateAsync(Schema, "others");
        foreach (var id in (long[])[1, 2, 3])
            await rows.BuryAsync(id);
        await others.BuryAsync(4);

        var named = await Admin.DeleteDeadAsync("tasks", [2, 4]);
        var nothing = await Admin.DeleteDeadAsync("tasks", []);
        var all = await Admin.DeleteDeadAsync("tasks");

        Assert.Equal((1, 0, 2), (named, nothing, all));
        Assert.Equal([4L], await Schema.ColumnAsync<long>("select id from {s}.dead"));
    }

    [Fact]
    public async Task Purge_deletes_what_waits_and_frees_its_uniqueness_keys()
    {
        var rows = await QueueRows.CreateAsync(Schema);
        var others = await QueueRows.CreateAsync(Schema, "others");
        await rows.AddAsync(uniqueKey: "a");
        await rows.AddAsync(dueIn: 3600, uniqueKey: "b");
        await rows.AddAsync();
        await rows.ClaimAsync(2, TimeSpan.Zero);
        await rows.BuryAsync(1);
        await others.AddAsync(uniqueKey: "a");

        var purged = await Admin.PurgeAsync("tasks");
        var counts = await Admin.ListAsync();

        Assert.Equal(3, purged);
        Assert.Equal([(1, 0, 0), (0, 2, 1)], counts.Select(queue => (queue.Ready, queue.Claimed, queue.Dead)));
        Assert.Equal(1, await Schema.ScalarAsync<long>("select count(*) from {s}.unique_keys"));
    }

    [Fact]
    public async Task Purge_leaves_what_a_worker_has_in_hand()
    {
        var rows = await QueueRows.CreateAsync(Schema, shards: 2);
        var held = await rows.AddAsync(shard: 0, key: "a");
        await rows.LeaseAsync(0, isLeased: true, held);
        await rows.LeaseAsync(1, isLeased: false, await rows.AddAsync(shard: 1, key: "b"));
        await rows.AddAsync(shard: 0, key: "a");

        var purged = await Admin.PurgeAsync("tasks");

        Assert.Equal(2, purged);
        Assert.Equal([held], await Schema.ColumnAsync<long>("select id from {s}.messages"));
    }
}
