using BatchKit.Postgres.Receiving;

namespace BatchKit.Postgres.Tests.Receiving;

public sealed class UpkeepTests(PostgresFixture fixture)
{
    [Fact]
    public async Task Nothing_to_do_says_so()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);

        var report = await scene.UpkeepAsync();

        Assert.False(report.HasWork);
        Assert.Null(report.NextDue);
        Assert.Equal(0, report.Returned + report.Buried);
    }

    [Theory]
    [InlineData("ready", 0)]
    [InlineData("due again", 1)]
    public async Task Ready_messages_and_due_retries_are_work(string text, int attempts)
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        await (attempts == 0 ? scene.InsertAsync(text) : scene.InsertRetryAsync(text, attempts));

        Assert.True((await scene.UpkeepAsync()).HasWork);
    }

    [Fact]
    public async Task A_claim_that_ended_gives_its_messages_back_with_an_attempt_behind_them()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        await scene.InsertAsync("a", "b");
        await scene.ClaimAsync();
        await scene.EndClaimsAsync();

        var report = await scene.UpkeepAsync();

        Assert.True(report.HasWork);
        Assert.Equal(2, report.Returned);
        Assert.Equal("a:1~ b:1~", await scene.WaitingAsync());
        Assert.Equal(0, await scene.CountAsync("claims"));
        Assert.Contains("worker-1", await scene.Schema.ScalarAsync<string>("select error from {s}.messages limit 1"), StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_claim_that_lasts_is_left_alone_and_its_end_is_told()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture, static options => options.ClaimTimeLimit = TimeSpan.FromMinutes(1));
        await scene.InsertAsync("a");
        await scene.ClaimAsync();

        var report = await scene.UpkeepAsync();

        Assert.False(report.HasWork);
        Assert.InRange(report.NextDue!.Value, TimeSpan.FromSeconds(20), TimeSpan.FromMinutes(1));
        Assert.Equal(1, await scene.CountAsync("claims"));
    }

    [Fact]
    public async Task What_was_claimed_for_the_last_time_is_buried_with_the_worker_and_the_limit()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture, static options => options.MaxAttempts = 1);
        await scene.InsertUniqueAsync("killer", "key");
        await scene.ClaimAsync();
        await scene.EndClaimsAsync();

        var report = await scene.UpkeepAsync();

        Assert.Equal(1, report.Buried);
        Assert.Equal("killer:1", await scene.DeadAsync());
        var error = await scene.Schema.ScalarAsync<string>("select error from {s}.dead");
        Assert.Equal("The claim of worker-1 ended: it was not settled, nor renewed, within 00:00:30.", error);
        Assert.Equal(0, await scene.CountAsync("unique_keys"));
    }

    [Fact]
    public async Task A_renewed_claim_lasts_and_an_ended_one_is_named()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture, static options => options.BatchSize = 1);
        await scene.InsertAsync("a", "b");
        var (ended, held) = ((await scene.ClaimAsync())!, (await scene.ClaimAsync())!);
        await scene.EndClaimsAsync();
        await scene.Schema.ExecuteAsync($"delete from {{s}}.claims where token = {ended.Token}");

        var lost = await scene.Store.RenewAsync(scene.Connection, [ended, held], CancellationToken.None);
        var report = await scene.UpkeepAsync();

        Assert.Equal([ended], lost);
        Assert.Equal(0, report.Returned);
        Assert.Equal(1, await scene.CountAsync("claims"));
    }

    [Theory]
    [InlineData(2, "young:1")]
    [InlineData(null, "old:1 young:1")]
    public async Task Dead_rows_go_after_their_retention_and_stay_without_one(int? days, string left)
    {
        await using var scene = await ClaimScene.OpenAsync(fixture, options => options.DeadRetention = days is { } kept ? TimeSpan.FromDays(kept) : null);
        await InsertDeadAsync(scene);

        await scene.UpkeepAsync();

        Assert.Equal(left, await scene.DeadAsync());
    }

    [Fact]
    public async Task Other_queues_are_left_alone()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        await scene.InsertAsync("a");
        await scene.ClaimAsync();
        await scene.InsertDelayedAsync("b", TimeSpan.Zero);
        await InsertDeadAsync(scene);
        await scene.EndClaimsAsync();
        await scene.Schema.ExecuteAsync("update {s}.messages set queue = queue + 1; update {s}.claims set queue = queue + 1; update {s}.dead set queue = queue + 1");

        var report = await scene.UpkeepAsync();

        Assert.Equal(default, report);
        Assert.Equal(1, await scene.CountAsync("claims"));
        Assert.Equal(2, await scene.CountAsync("dead"));
    }

    private static Task InsertDeadAsync(ClaimScene scene) =>
        scene.Schema.ExecuteAsync(
            $"insert into {{s}}.dead (id, queue, died_at, enqueued_at, rank, attempts, error, payload) values (1, {scene.Queue.Id}, now() - interval '3 days', now(), 0, 1, 'x', 'old'), (2, {scene.Queue.Id}, now(), now(), 0, 1, 'x', 'young')");

    [Fact]
    public async Task Claims_with_large_messages_are_given_back_a_few_megabytes_at_a_time_and_one_at_least()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture, static options => options.BatchSize = 1);
        await scene.Schema.ExecuteAsync($"insert into {{s}}.messages (queue, payload) select {scene.Queue.Id}, pg_catalog.convert_to(repeat('x', size * 1024 * 1024), 'UTF8') from unnest(array[12, 3, 3, 3]) with ordinality as u (size, n) order by n");
        for (var claim = 0; claim < 4; claim++)
            Assert.NotNull(await scene.ClaimAsync());
        await scene.EndClaimsAsync();
        await scene.Schema.ExecuteAsync("update {s}.claims set until = until + ids[1] * interval '1 microsecond' - interval '1 minute'");

        var returned = new List<int>();
        while ((await scene.UpkeepAsync()).Returned is > 0 and var count)
            returned.Add(count);

        Assert.Equal([1, 2, 1], returned);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    public async Task An_upkeep_that_did_not_end_in_time_has_more_time_the_next_time(int shards)
    {
        await using var scene = await ClaimScene.OpenAsync(fixture, options => options.CommandTimeout = TimeSpan.FromSeconds(1));
        await using var ordered = await Ordered.OrderedQueue.OpenAsync(await fixture.GetAsync(), configure: options => options.CommandTimeout = TimeSpan.FromSeconds(1));
        var schema = shards == 0 ? scene.Schema : ordered.Schema;
        await (shards == 0 ? scene.InsertAsync("slow") : ordered.AddAsync("slow"));
        Assert.NotNull(shards == 0 ? await scene.ClaimAsync() : await ordered.TakeAsync());
        await (shards == 0 ? scene.EndClaimsAsync() : ordered.ExpireAsync());
        await schema.ExecuteAsync("create function {s}.slow() returns trigger language plpgsql as 'begin perform pg_sleep(1.5); return new; end'; create trigger slow before insert or update on {s}.messages for each row execute function {s}.slow()");
        Task<UpkeepReport> UpkeepAsync() => shards == 0 ? scene.UpkeepAsync() : ordered.UpkeepAsync();

        var late = await Assert.ThrowsAsync<Npgsql.NpgsqlException>(UpkeepAsync);
        await Until.TrueAsync(async () =>
        {
            try
            {
                return (await UpkeepAsync()).Returned == 1;
            }
            catch (Npgsql.NpgsqlException exception) when (exception.InnerException is TimeoutException)
            {
                // A busy machine; the next one has twice the time.
                return false;
            }
        });

        Assert.IsType<TimeoutException>(late.InnerException);
    }
}
