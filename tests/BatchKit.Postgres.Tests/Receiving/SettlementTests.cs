using BatchKit.Postgres.Receiving;

namespace BatchKit.Postgres.Tests.Receiving;

public sealed class SettlementTests(PostgresFixture fixture)
{
    [Fact]
    public async Task What_is_done_is_gone_and_the_next_comes_in_the_same_exchange()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture, static options => options.BatchSize = 2);
        await scene.InsertAsync("a", "b", "c");
        var claim = await scene.ClaimAsync();

        var exchange = await scene.Store.ExchangeAsync(scene.Connection, [claim!], new ClaimRequest(Claims: 1, Retries: 0), CancellationToken.None);

        Assert.Empty(exchange.Refused);
        Assert.Equal(["c"], ClaimScene.TextsOf(Assert.Single(exchange.Taken)));
        Assert.Equal(1, await scene.CountAsync("claims"));
        Assert.Equal("", await scene.WaitingAsync());
    }

    [Fact]
    public async Task Each_message_goes_where_its_outcome_says()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        await scene.InsertAsync("done", "again", "bad", "back");
        var claim = (await scene.ClaimAsync())!;
        claim.Batch[0].Complete();
        claim.Batch[1].Retry("not now", TimeSpan.FromHours(1));
        claim.Batch[2].Refuse("never");
        claim.Batch[3].Release();

        var refused = await scene.SettleAsync(claim);

        Assert.Empty(refused);
        Assert.Equal("again:1~ back:0", await scene.WaitingAsync());
        Assert.Equal("bad:1", await scene.DeadAsync());
        Assert.Equal("not now", await scene.Schema.ScalarAsync<string>("select error from {s}.messages where attempts = 1"));
        Assert.Equal("never", await scene.Schema.ScalarAsync<string>("select error from {s}.dead"));
        Assert.Equal(0, await scene.CountAsync("claims"));
        Assert.InRange(await scene.Schema.ScalarAsync<TimeSpan>("select due_at - now() from {s}.messages where attempts = 1"), TimeSpan.FromMinutes(50), TimeSpan.FromHours(1));
    }

    [Fact]
    public async Task A_message_keeps_what_it_was_through_claim_and_return()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        await scene.Schema.ExecuteAsync(
            $"insert into {{s}}.messages (queue, rank, enqueued_at, unique_key, header, payload) values ({scene.Queue.Id}, -3, '2026-01-02 03:04:05.678901Z', 'key', null, 'a'), ({scene.Queue.Id}, 4, now(), null, null, 'b')");
        const string Rows = "select id || ' ' || rank || ' ' || enqueued_at || ' ' || coalesce(unique_key, '-') || ' ' || encode(payload, 'hex') from {s}.messages order by id";
        var before = await scene.Schema.ColumnAsync<string>(Rows);
        var claim = (await scene.ClaimAsync())!;
        foreach (var message in claim.Batch)
            message.Release();

        await scene.SettleAsync(claim);

        Assert.Equal(before, await scene.Schema.ColumnAsync<string>(Rows));
        Assert.Equal(new DateTimeOffset(2026, 1, 2, 3, 4, 5, TimeSpan.Zero).AddTicks(6_789_010), claim.Batch[0].EnqueuedAt);
    }

    [Fact]
    public async Task A_retry_that_is_given_back_is_still_claimed_alone()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        await scene.InsertRetryAsync("poison", attempts: 3);
        var claim = (await scene.ClaimAsync())!;
        claim.Batch[0].Release();

        await scene.SettleAsync(claim);

        Assert.Equal("poison:3~", await scene.WaitingAsync());
    }

    [Fact]
    public async Task The_last_attempt_that_fails_is_buried()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture, static options => options.MaxAttempts = 3);
        await scene.InsertRetryAsync("poison", attempts: 2);
        var claim = (await scene.ClaimAsync())!;
        claim.Batch[0].Retry("still broken");

        await scene.SettleAsync(claim);

        Assert.Equal("", await scene.WaitingAsync());
        Assert.Equal("poison:3", await scene.DeadAsync());
    }

    [Fact]
    public async Task A_token_that_has_ended_is_refused_and_touches_nothing()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        await scene.InsertAsync("a", "b");
        var zombies = (await scene.ClaimAsync())!;
        await scene.EndClaimsAsync();
        await scene.UpkeepAsync();
        var retaken = (await scene.ClaimAsync())!;
        zombies.Batch[1].Retry("late");

        var refused = await scene.SettleAsync(zombies);

        Assert.Equal([zombies], refused);
        Assert.Equal("b:1~", await scene.WaitingAsync());
        Assert.Empty(await scene.SettleAsync(retaken));
    }

    [Fact]
    public async Task Settling_twice_is_refused_the_second_time()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        await scene.InsertAsync("a");
        var claim = (await scene.ClaimAsync())!;

        Assert.Empty(await scene.SettleAsync(claim));
        Assert.Equal([claim], await scene.SettleAsync(claim));
    }

    [Fact]
    public async Task Of_several_claims_only_the_ended_one_is_refused()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture, static options => options.BatchSize = 1);
        await scene.InsertAsync("a", "b", "c", "d");
        Claim[] claims = [(await scene.ClaimAsync())!, (await scene.ClaimAsync())!, (await scene.ClaimAsync())!, (await scene.ClaimAsync())!];
        await scene.Schema.ExecuteAsync($"delete from {{s}}.claims where token in ({claims[1].Token}, {claims[3].Token})");
        claims[2].Batch[0].Retry("again");
        claims[3].Batch[0].Retry("again");

        var refused = await scene.SettleAsync(claims);

        Assert.Equal([claims[1], claims[3]], refused);
        Assert.Equal("c:1~", await scene.WaitingAsync());
    }

    [Fact]
    public async Task A_uniqueness_key_is_freed_when_its_message_is_done_or_dead()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture, static options => options.BatchSize = 4);
        await scene.InsertUniqueAsync("done", "k1");
        await scene.InsertUniqueAsync("again", "k2");
        await scene.InsertUniqueAsync("bad", "k3");
        await scene.InsertUniqueAsync("back", "k4");
        await scene.InsertUniqueAsync("done too", "k5");
        var mixed = (await scene.ClaimAsync())!;
        mixed.Batch[1].Retry("again");
        mixed.Batch[2].Refuse("never");
        mixed.Batch[3].Release();
        var done = (await scene.ClaimAsync())!;

        await scene.SettleAsync(mixed, done);

        Assert.Equal(["k2", "k4"], await scene.Schema.ColumnAsync<string>("select key from {s}.unique_keys order by key"));
    }

    [Fact]
    public async Task A_reason_that_PostgreSQL_would_refuse_is_stored_all_the_same()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        await scene.InsertAsync("a", "b", "c");
        var claim = (await scene.ClaimAsync())!;
        claim.Batch[0].Refuse("nul \0 and half \ud83d a pair");
        claim.Batch[1].Refuse("");
        claim.Batch[2].Refuse(new string('\ud83d', 100_000) + "'; drop table x; --");

        await scene.SettleAsync(claim);

        var errors = await scene.Schema.ColumnAsync<string>("select error from {s}.dead order by id");
        Assert.Equal("nul \ufffd and half \ufffd a pair", errors[0]);
        Assert.Equal("No reason was given.", errors[1]);
        Assert.Equal(ErrorText.MaxLength, errors[2].Length);
    }
}
