using static BatchKit.Postgres.Tests.Ordered.OrderedQueue;

namespace BatchKit.Postgres.Tests.Ordered;

public sealed class ShardPoisonTests(PostgresFixture fixture)
{
    [Fact]
    public async Task A_message_that_failed_as_often_as_it_may_is_buried_and_its_key_goes_on()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync(), configure: options => options.MaxAttempts = 2);
        await queue.AddAsync("a:1", "a:2");
        await FailFirstAsync(queue, "once");
        await queue.MakeDueAsync();
        await FailFirstAsync(queue, "twice");

        var next = await queue.TakeAsync();

        Assert.Equal(["1 2 twice"], await queue.DeadAsync());
        Assert.Equal(["2"], Texts(next));
    }

    [Fact]
    public async Task Where_poison_blocks_it_is_tried_for_ever_and_its_key_waits()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync(), configure: options => (options.MaxAttempts, options.Poison) = (1, PoisonPolicy.Block));
        await queue.AddAsync("a:1", "a:2", "b:3");
        await FailFirstAsync(queue, "once");
        await queue.MakeDueAsync();
        await FailFirstAsync(queue, "twice");

        var next = await queue.TakeAsync();
        var upkeep = await queue.UpkeepAsync();

        Assert.Null(next);
        Assert.Empty(await queue.DeadAsync());
        Assert.Equal(["1 2", "2 0"], await queue.StoredAsync());
        Assert.False(upkeep.HasWork);
        Assert.InRange(upkeep.NextDue!.Value, TimeSpan.FromMinutes(4), TimeSpan.FromMinutes(5));
    }

    [Fact]
    public async Task Blocked_keys_are_logged()
    {
        var log = new LogCollector();
        await using var queue = await OpenAsync(await fixture.GetAsync(), configure: options => (options.MaxAttempts, options.Poison) = (1, PoisonPolicy.Block));
        await queue.AddAsync("a:1");
        var store = queue.MakeStore("worker 1", log);
        var claim = (await queue.TakeAsync(store))!;

        claim.Batch[0].Retry("once");
        await queue.ExchangeAsync([claim], store: store);

        Assert.Contains("queue ordered", Assert.Single(log.Entries, entry => entry.Id == 2645).Text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Where_poison_blocks_a_lease_that_ends_buries_nothing()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync(), configure: options => (options.MaxAttempts, options.Poison) = (1, PoisonPolicy.Block));
        await queue.AddAsync("a:1");
        await queue.TakeAsync();
        await queue.ExpireAsync();

        var upkeep = await queue.UpkeepAsync();

        Assert.Equal((1, 0), (upkeep.Returned, upkeep.Buried));
        Assert.Equal(["1 1"], await queue.StoredAsync());
    }

    [Fact]
    public async Task A_reason_of_any_text_is_stored()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync());
        await queue.AddAsync("a:1", "b:2");
        var claim = (await queue.TakeAsync())!;

        claim.Batch[0].Refuse("nul \0, half a pair \ud800, '; drop table messages; --");
        claim.Batch[1].Retry(new string('x', 100_000));
        await queue.ExchangeAsync([claim], claims: 0);

        Assert.Equal(["1 1 nul \uFFFD, half a pair \uFFFD, '; drop table messages; --"], await queue.DeadAsync());
        Assert.Equal(["2 1"], await queue.StoredAsync());
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_message_that_is_done_or_dead_frees_its_uniqueness_key(bool buries)
    {
        await using var queue = await OpenAsync(await fixture.GetAsync());
        await queue.AddAsync("a:1");
        await queue.Schema.ExecuteAsync("update {s}.messages set unique_key = 'u'; insert into {s}.unique_keys (queue, key) select id, unnest(array['u', 'other']) from {s}.queues");
        var claim = (await queue.TakeAsync())!;

        if (buries)
            claim.Batch[0].Refuse("bad");
        await queue.ExchangeAsync([claim], claims: 0);

        Assert.Equal(["other"], await queue.Schema.ColumnAsync<string>("select key from {s}.unique_keys"));
    }

    private static async Task FailFirstAsync(OrderedQueue queue, string reason)
    {
        var claim = (await queue.TakeAsync())!;
        claim.Batch[0].Retry(reason);
        await queue.ExchangeAsync([claim], claims: 0);
    }
}
