using BatchKit.Postgres.Receiving;

namespace BatchKit.Postgres.Tests.Receiving;

public sealed class ClaimTests(PostgresFixture fixture)
{
    [Fact]
    public async Task An_empty_queue_gives_no_claim()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);

        Assert.Null(await scene.ClaimAsync());
        Assert.Null(await scene.ClaimAsync(retriesFirst: true));
        Assert.Equal(0, await scene.CountAsync("claims"));
    }

    [Fact]
    public async Task A_claim_moves_so_many_messages_in_order()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture, static options => options.BatchSize = 3);
        await scene.InsertAsync("a", "b", "c", "d");

        var claim = await scene.ClaimAsync();

        Assert.NotNull(claim);
        Assert.Equal(["a", "b", "c"], ClaimScene.TextsOf(claim));
        Assert.True(claim.HasMore);
        Assert.All(claim.Batch, static message => Assert.Equal(1, message.Attempt));
        Assert.Equal("d:0", await scene.WaitingAsync());
        Assert.Equal(1, await scene.CountAsync("claims"));
    }

    [Fact]
    public async Task Two_workers_never_claim_the_same_message()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture, static options => options.BatchSize = 2);
        await scene.InsertAsync("a", "b", "c");
        var other = scene.StoreOf("worker-2");

        var first = await scene.ClaimAsync();
        var second = await scene.ClaimAsync(store: other);
        var third = await scene.ClaimAsync(store: other);

        Assert.Equal(["a", "b"], ClaimScene.TextsOf(first!));
        Assert.Equal(["c"], ClaimScene.TextsOf(second!));
        Assert.False(second!.HasMore);
        Assert.Null(third);
    }

    [Fact]
    public async Task Rows_that_another_transaction_holds_are_skipped()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        await scene.InsertAsync("a", "b");
        await using var rival = await scene.Schema.DataSource.OpenConnectionAsync();
        await using var transaction = await rival.BeginTransactionAsync();
        await using (var command = rival.CreateCommand())
        {
            command.CommandText = $"select from {scene.Schema.Quoted}.messages where payload = 'a' for update";
            await command.ExecuteNonQueryAsync();
        }

        var claim = await scene.ClaimAsync();

        Assert.Equal(["b"], ClaimScene.TextsOf(claim!));
    }

    [Fact]
    public async Task Higher_priorities_come_first()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        await scene.InsertAsync(rank: 0, "plain");
        await scene.InsertAsync(rank: 7, "low");
        await scene.InsertAsync(rank: -7, "high", "high too");

        var claim = await scene.ClaimAsync();

        Assert.Equal(["high", "high too", "plain", "low"], ClaimScene.TextsOf(claim!));
        Assert.Equal([7, 7, 0, -7], claim!.Batch.Select(static message => message.Priority));
    }

    [Fact]
    public async Task A_batch_has_no_more_bytes_than_allowed()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture, static options => options.MaxBatchBytes = 10);
        await scene.InsertAsync("12345", "67890", "x", "a message that is too long by itself", "y");

        var claims = new[] { await scene.ClaimAsync(), await scene.ClaimAsync(), await scene.ClaimAsync(), await scene.ClaimAsync() };

        Assert.Equal([2, 1, 1, 1], claims.Select(static claim => claim!.Batch.Count));
        Assert.Equal([true, true, true, false], claims.Select(static claim => claim!.HasMore));
    }

    [Theory]
    [InlineData(1, 0)]
    [InlineData(1, 1)]
    [InlineData(3, 0)]
    [InlineData(3, 3)]
    public async Task Headers_count_as_bytes_of_a_batch(int claims, int retries)
    {
        await using var scene = await ClaimScene.OpenAsync(fixture, static options => options.MaxBatchBytes = 20);
        var attempts = retries > 0 ? "1, now()" : "0, null";
        await scene.Schema.ExecuteAsync($"insert into {{s}}.messages (queue, attempts, due_at, header, payload) select {scene.Queue.Id}, {attempts}, '1234567', 'ab' from generate_series(1, 4)");

        var taken = (await scene.Store.ExchangeAsync(scene.Connection, [], new ClaimRequest(claims, retries), CancellationToken.None)).Taken;

        Assert.Equal(retries > 0 && claims == 1 ? 9 : 18, taken.Sum(static claim => claim.Bytes));
    }

    [Fact]
    public async Task What_has_failed_before_is_claimed_alone()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        await scene.InsertRetryAsync("poison", attempts: 1);
        await scene.InsertRetryAsync("poison too", attempts: 2);
        await scene.InsertAsync("a", "b");

        var fresh = await scene.ClaimAsync(retriesFirst: false);
        var first = await scene.ClaimAsync(retriesFirst: true);
        var second = await scene.ClaimAsync(retriesFirst: false);

        Assert.Equal(["a", "b"], ClaimScene.TextsOf(fresh!));
        Assert.Equal(["poison"], ClaimScene.TextsOf(first!));
        Assert.Equal(2, first!.Batch[0].Attempt);
        Assert.Equal(["poison too"], ClaimScene.TextsOf(second!));
        Assert.Equal(3, second!.Batch[0].Attempt);
    }

    [Fact]
    public async Task Asked_for_retries_first_it_takes_fresh_ones_when_there_are_none()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        await scene.InsertAsync("a", "b");

        var claim = await scene.ClaimAsync(retriesFirst: true);

        Assert.Equal(["a", "b"], ClaimScene.TextsOf(claim!));
    }

    [Fact]
    public async Task A_delayed_message_waits()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        await scene.InsertDelayedAsync("later", TimeSpan.FromHours(1));
        await scene.InsertDelayedAsync("now", TimeSpan.Zero);

        var report = await scene.UpkeepAsync();
        var claim = await scene.ClaimAsync();

        Assert.True(report.HasWork);
        Assert.InRange(report.NextDue!.Value, TimeSpan.FromMinutes(50), TimeSpan.FromHours(1));
        Assert.Equal(["now"], ClaimScene.TextsOf(claim!));
        Assert.Equal(1, claim!.Batch[0].Attempt);
        Assert.Equal("later:0~", await scene.WaitingAsync());
    }

    [Fact]
    public async Task Several_claims_come_in_one_exchange()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture, static options => options.BatchSize = 2);
        await scene.InsertAsync("a", "b", "c", "d", "e");
        await scene.InsertRetryAsync("poison", attempts: 1);
        await scene.InsertRetryAsync("poison too", attempts: 1);

        var fresh = await scene.Store.ExchangeAsync(scene.Connection, [], new ClaimRequest(Claims: 2, Retries: 0), CancellationToken.None);
        var retries = await scene.Store.ExchangeAsync(scene.Connection, [], new ClaimRequest(Claims: 2, Retries: 2), CancellationToken.None);

        Assert.Equal(["a b", "c d"], fresh.Taken.Select(static claim => string.Join(' ', ClaimScene.TextsOf(claim))).Order());
        Assert.Equal(["poison", "poison too"], retries.Taken.Select(static claim => string.Join(' ', ClaimScene.TextsOf(claim))).Order());
        Assert.Equal(4, fresh.Taken.Concat(retries.Taken).Select(static claim => claim.Token).Distinct().Count());
        Assert.All(fresh.Taken.Concat(retries.Taken), static claim => Assert.True(claim.HasMore));
    }

    [Fact]
    public async Task Several_claims_share_retries_and_fresh_messages_as_asked_for_and_say_when_nothing_is_left()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture, static options => options.BatchSize = 2);
        await scene.InsertAsync("a", "b", "c", "d", "e", "f");
        await scene.InsertRetryAsync("poison", attempts: 1);
        await scene.InsertRetryAsync("poison too", attempts: 1);

        Assert.Equal(["a b", "c d", "poison"], await TakeAsync(3, retries: 1));
        await scene.InsertAsync("g");
        Assert.Equal(["e f", "g", "poison too"], await TakeAsync(4, retries: 3));
        await scene.InsertAsync("h", "i", "j");
        var last = await scene.Store.ExchangeAsync(scene.Connection, [], new ClaimRequest(Claims: 3, Retries: 0), CancellationToken.None);
        Assert.Equal([2, 1], last.Taken.Select(static claim => claim.Batch.Count));
        Assert.All(last.Taken, static claim => Assert.False(claim.HasMore));

        async Task<IEnumerable<string>> TakeAsync(int claims, int retries) =>
            (await scene.Store.ExchangeAsync(scene.Connection, [], new ClaimRequest(claims, retries), CancellationToken.None)).Taken.Select(static claim => string.Join(' ', ClaimScene.TextsOf(claim))).Order();
    }

    [Fact]
    public async Task Several_claims_together_have_no_more_bytes_than_allowed()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture, static options => (options.BatchSize, options.MaxBatchBytes) = (3, 100));
        var random = new Random(1);
        string[] texts = [.. Enumerable.Range(0, 60).Select(_ => new string('x', random.Next(1, 140)))];
        await scene.InsertAsync(texts);
        foreach (var text in texts)
            await scene.InsertRetryAsync(text, attempts: 1);

        var left = 2 * texts.Length;
        for (var retries = 0; left > 0; retries = 4 - retries)
        {
            var taken = (await scene.Store.ExchangeAsync(scene.Connection, [], new ClaimRequest(Claims: 4, retries), CancellationToken.None)).Taken;
            Assert.All(taken.GroupBy(static claim => claim.Batch[0].Attempt), static group => Assert.True(group.Sum(static claim => claim.Batch.Count) == 1 || group.Sum(static claim => claim.Bytes) <= 100));
            Assert.InRange(taken.Count, 1, 4);
            left -= taken.Sum(static claim => claim.Batch.Count);
            Assert.True(left == 0 || taken[0].HasMore || retries == 0);
        }
    }

    [Fact]
    public async Task A_megabyte_and_nothing_come_back_as_they_were()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        await scene.Schema.ExecuteAsync($"insert into {{s}}.messages (queue, payload) select {scene.Queue.Id}, convert_to(repeat('0123456789abcdef', 65536), 'UTF8') from generate_series(1, 3)");
        await scene.InsertAsync("");

        var claim = await scene.ClaimAsync();

        Assert.Equal([1 << 20, 1 << 20, 1 << 20, 0], claim!.Batch.Select(static message => message.Payload.Length));
        Assert.EndsWith("789abcdef", ClaimScene.TextOf(claim.Batch[2]), StringComparison.Ordinal);
    }
}
