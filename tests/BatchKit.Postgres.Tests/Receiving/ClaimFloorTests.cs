using BatchKit.Postgres.Receiving;
using BatchKit.Postgres.Schema;

namespace BatchKit.Postgres.Tests.Receiving;

public sealed class ClaimFloorTests(PostgresFixture fixture)
{
    // Every look took longer.
    private static readonly TimeSpan Always = TimeSpan.FromTicks(-1);

    [Fact]
    public void While_a_look_is_short_claims_begin_at_the_beginning()
    {
        var floor = new ClaimFloor(TimeSpan.FromMilliseconds(10));
        floor.Looked(TimeSpan.FromMilliseconds(10), rank: 0, id: 7);

        floor.Claimed(floor.From, [SomeClaim(id: 9)]);

        Assert.Equal(new ClaimFloor.Position(short.MinValue, 0), floor.From);
    }

    [Fact]
    public void After_a_long_look_claims_begin_where_it_ended_and_go_on_from_there()
    {
        var floor = new ClaimFloor(TimeSpan.FromMilliseconds(10));

        floor.Looked(TimeSpan.FromMilliseconds(11), rank: -3, id: 7);
        Assert.Equal(new ClaimFloor.Position(-3, 7), floor.From);
        floor.Claimed(floor.From, [SomeClaim(id: 9)]);

        Assert.Equal(new ClaimFloor.Position(0, 9), floor.From);
    }

    [Fact]
    public void A_look_meanwhile_counts_more_than_a_claim()
    {
        var floor = new ClaimFloor(TimeSpan.Zero);
        floor.Looked(TimeSpan.FromMilliseconds(1), rank: 0, id: 100);
        var from = floor.From;
        floor.Looked(TimeSpan.FromMilliseconds(1), rank: -3, id: 200);

        floor.Claimed(from, [SomeClaim(id: 150)]);

        Assert.Equal(new ClaimFloor.Position(-3, 200), floor.From);
    }

    [Fact]
    public void A_retry_says_nothing_of_where_fresh_messages_begin()
    {
        var floor = new ClaimFloor(TimeSpan.Zero);
        floor.Looked(TimeSpan.FromMilliseconds(1), rank: 0, id: 100);

        floor.Claimed(floor.From, [SomeClaim(id: 1000, attempt: 2)]);

        Assert.Equal(new ClaimFloor.Position(0, 100), floor.From);
    }

    [Fact]
    public async Task What_comes_in_below_the_floor_is_found_after_the_next_upkeep()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture, static options => options.BatchSize = 1);
        var store = new ClaimStore(new Tables(scene.Schema.Name), scene.Queue, scene.Options, "worker", timeProvider: null, new ClaimFloor(Always));
        await scene.InsertAsync("a", "b", "c");
        await store.UpkeepAsync(scene.Connection, CancellationToken.None);
        await scene.ClaimAsync(store: store);
        await scene.InsertAsync(rank: -5, "urgent");

        var below = await scene.ClaimAsync(store: store);
        var report = await store.UpkeepAsync(scene.Connection, CancellationToken.None);
        var first = await scene.ClaimAsync(store: store);
        var last = await scene.ClaimAsync(store: store);

        Assert.True(report.HasWork);
        Assert.Equal(["b", "urgent", "c"], new[] { below, first, last }.Select(static claim => ClaimScene.TextOf(claim!.Batch[0])));
    }

    private static Claim SomeClaim(long id, int attempt = 1) =>
        new(new ClaimStore(new Tables("schema"), new QueueEntry(1, "tasks", Shards: 0), new PostgresQueueReceiverOptions(), "worker"), token: 1, shard: -1, new QueueBatch([new QueueMessage(OutputHandle.Named("tasks"), id, attempt, 0, DateTimeOffset.UnixEpoch, key: null, header: null, default)]));
}
