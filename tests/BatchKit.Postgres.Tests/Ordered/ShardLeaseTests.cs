using BatchKit.Postgres.Receiving;
using static BatchKit.Postgres.Tests.Ordered.OrderedQueue;

namespace BatchKit.Postgres.Tests.Ordered;

public sealed class ShardLeaseTests(PostgresFixture fixture)
{
    [Fact]
    public async Task A_shard_is_one_workers_at_a_time()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync(), configure: options => options.BatchSize = 1);
        await queue.AddAsync("a:1", "b:2");

        var first = await queue.TakeAsync();
        var second = await queue.TakeAsync(queue.MakeStore("worker 2"));

        Assert.Equal(["1"], Texts(first));
        Assert.Null(second);
    }

    [Fact]
    public async Task Several_shards_are_served_at_once()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync(), shards: 64);
        await queue.AddAsync("a:1", "b:2", "c:3");

        Claim?[] claims = [await queue.TakeAsync(), await queue.TakeAsync(), await queue.TakeAsync(), await queue.TakeAsync()];

        Assert.Equal(["1", "2", "3"], claims.SelectMany(Texts).Order());
        Assert.Null(claims[3]);
    }

    [Fact]
    public async Task A_worker_whose_lease_ended_is_refused_and_changes_nothing()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync());
        await queue.AddAsync("a:1", "a:2");
        var zombie = (await queue.TakeAsync())!;
        await queue.ExpireAsync();
        await queue.UpkeepAsync();
        var rightful = (await queue.TakeAsync(queue.MakeStore("worker 2")))!;

        zombie.Batch[1].Retry("late");
        var late = await queue.ExchangeAsync([zombie], claims: 0);
        var done = await queue.ExchangeAsync([rightful], claims: 0);

        Assert.Equal([zombie], late.Refused);
        Assert.Empty(done.Refused);
        Assert.Equal(["2 1"], await queue.StoredAsync());
    }

    [Fact]
    public async Task A_lease_that_was_lost_and_taken_again_by_the_same_process_is_renewed_by_its_new_holder_only()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync());
        await queue.AddAsync("a:1");
        var zombie = (await queue.TakeAsync())!;
        await queue.ExpireAsync();
        await queue.UpkeepAsync();
        var rightful = (await queue.TakeAsync())!;

        var ended = await queue.RenewAsync(zombie, rightful);

        Assert.Equal([zombie], ended);
    }

    [Fact]
    public async Task A_holder_of_a_shard_can_settle_nothing_in_a_schema_that_was_made_again()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync());
        await queue.AddAsync("a:1");
        var zombie = (await queue.TakeAsync())!;
        await queue.Schema.ExecuteAsync("drop schema {s} cascade");
        await using var again = await OpenAsync(await fixture.GetAsync(), name: queue.Schema.Name);
        await again.AddAsync("a:1");
        var rightful = (await again.TakeAsync())!;

        var late = await queue.ExchangeAsync([zombie], claims: 0);

        Assert.Equal([zombie], late.Refused);
        Assert.Equal(["1 0"], await again.StoredAsync());
        Assert.Empty((await again.ExchangeAsync([rightful], claims: 0)).Refused);
    }

    [Fact]
    public async Task A_holder_whose_lease_did_not_reach_the_promoted_standby_settles_nothing_of_the_next_one()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync());
        await queue.AddAsync("a:1", "a:2");
        var epoch = await queue.Schema.ScalarAsync<long>("select epoch from {s}.shards");
        var zombie = (await queue.TakeAsync())!;
        await queue.Schema.ExecuteAsync($"update {{s}}.shards set epoch = {epoch}, until = null, worker = null, in_hand = null");
        var rightful = (await queue.TakeAsync(queue.MakeStore("worker 2")))!;

        var late = await queue.ExchangeAsync([zombie], claims: 0);

        Assert.Equal([zombie], late.Refused);
        Assert.Equal(["1 0", "2 0"], await queue.StoredAsync());
        Assert.Empty((await queue.ExchangeAsync([rightful], claims: 0)).Refused);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_holder_settles_no_message_that_got_the_number_of_one_that_did_not_reach_the_promoted_standby(bool refuses)
    {
        await using var queue = await OpenAsync(await fixture.GetAsync(), configure: options => options.BatchSize = 1);
        await queue.AddAsync("a:1", "a:lost");
        var first = (await queue.TakeAsync())!;
        var number = first.Batch[0].Id;
        var second = (await queue.SettleAndTakeAsync(first))!;
        await queue.Schema.ExecuteAsync($"update {{s}}.shards set in_hand = array[{number}]; update {{s}}.messages set payload = 'another'");

        if (refuses)
            second.Batch[0].Refuse("It is broken.");
        await queue.ExchangeAsync([second], claims: 0);

        Assert.Equal(["another 0"], await queue.StoredAsync());
        Assert.Empty(await queue.DeadAsync());
    }

    [Fact]
    public async Task A_settlement_that_is_made_twice_counts_an_attempt_once()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync());
        await queue.AddAsync("a:1", "b:2");
        var claim = (await queue.TakeAsync())!;
        claim.Batch[0].Retry("not yet");

        await queue.ExchangeAsync([claim], claims: 0);
        await queue.Schema.ExecuteAsync("update {s}.shards set until = now() + interval '1 min'");
        await queue.ExchangeAsync([claim], claims: 0);

        Assert.Equal(["1 1"], await queue.StoredAsync());
    }

    [Fact]
    public async Task A_lease_that_ends_costs_what_it_held_an_attempt_and_nothing_else()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync(), configure: options => options.BatchSize = 2);
        await queue.AddAsync("a:1", "b:2", "c:3");
        await queue.TakeAsync();
        var before = await queue.UpkeepAsync();
        await queue.ExpireAsync();

        var upkeep = await queue.UpkeepAsync();
        var next = await queue.TakeAsync();

        Assert.Equal((false, 0), (before.HasWork, before.Returned));
        Assert.Equal((true, 2, 0), (upkeep.HasWork, upkeep.Returned, upkeep.Buried));
        Assert.Equal(["1 1", "2 1", "3 0"], await queue.StoredAsync());
        Assert.Equal(["1"], Texts(next));
    }

    [Fact]
    public async Task A_message_whose_last_attempt_never_ended_is_buried_with_the_workers_name()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync(), configure: options => options.MaxAttempts = 1);
        await queue.AddAsync("a:1");
        await queue.TakeAsync();
        await queue.ExpireAsync();

        var upkeep = await queue.UpkeepAsync();

        Assert.Equal((0, 1), (upkeep.Returned, upkeep.Buried));
        Assert.Equal(["1 1 The claim of worker 1 ended: it was not settled, nor renewed, within 00:00:30."], await queue.DeadAsync());
        Assert.Empty(await queue.StoredAsync());
    }

    [Fact]
    public async Task A_renewed_lease_lasts_and_one_that_ended_is_named()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync(), shards: 64);
        await queue.AddAsync("a:1", "b:2");
        Claim[] held = [(await queue.TakeAsync())!, (await queue.TakeAsync())!];
        await queue.ExpireAsync();

        var lost = await queue.RenewAsync(held[0]);
        var upkeep = await queue.UpkeepAsync();
        var lostLater = await queue.RenewAsync(held);

        Assert.Empty(lost);
        Assert.Equal(1, upkeep.Returned);
        Assert.Equal([held[1]], lostLater);
    }

    [Fact]
    public async Task What_is_given_back_costs_no_attempt_and_is_free_at_once()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync());
        await queue.AddAsync("a:1", "b:2");
        var claim = (await queue.TakeAsync())!;

        foreach (var message in claim.Batch)
            message.Release();
        await queue.ExchangeAsync([claim], claims: 0);
        var again = await queue.TakeAsync(queue.MakeStore("worker 2"));

        Assert.Equal(["1", "2"], Texts(again));
        Assert.All(again!.Batch, message => Assert.Equal(1, message.Attempt));
    }

    [Fact]
    public async Task A_worker_stays_with_its_shard_for_a_turn_and_then_serves_another()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync(), shards: 64, configure: options => options.BatchSize = 1);
        await queue.AddAsync("a:1", "a:2", "a:3", "a:4");
        var first = (await queue.TakeAsync())!;
        await queue.AddAsync("b:5");

        var second = (await queue.SettleAndTakeAsync(first))!;
        await queue.EndTurnsAsync();
        var third = (await queue.SettleAndTakeAsync(second))!;
        var fourth = (await queue.SettleAndTakeAsync(third))!;

        Assert.Equal(["2"], Texts(second));
        Assert.Equal(["5"], Texts(third));
        Assert.Equal(["3"], Texts(fourth));
    }

    [Fact]
    public async Task A_worker_whose_turn_ended_stays_where_no_other_shard_has_work()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync(), shards: 64, configure: options => options.BatchSize = 1);
        await queue.AddAsync("a:1", "a:2");
        var first = (await queue.TakeAsync())!;
        await queue.EndTurnsAsync();

        var second = await queue.SettleAndTakeAsync(first);

        Assert.Equal(["2"], Texts(second));
        Assert.Equal(first.Token, second!.Token);
    }

    [Fact]
    public async Task After_the_servers_clock_was_set_back_turns_are_as_long_as_before()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync(), shards: 2, configure: static options => options.BatchSize = 1);
        await queue.AddAsync("a:1", "a:2", "a:3", "b:4", "c:5", "d:6", "e:7");
        var first = (await queue.TakeAsync())!;
        await queue.Schema.ExecuteAsync("update {s}.shards set turn_at = now() + interval '1 hour'");

        var second = (await queue.SettleAndTakeAsync(first))!;

        Assert.NotEqual(first.Shard, second.Shard);
        Assert.Equal(1L, await queue.Schema.ScalarAsync<long>("select count(*) from {s}.shards where turn_at <= now()"));
    }
}
