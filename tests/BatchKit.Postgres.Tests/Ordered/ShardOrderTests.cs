using static BatchKit.Postgres.Tests.Ordered.OrderedQueue;

namespace BatchKit.Postgres.Tests.Ordered;

public sealed class ShardOrderTests(PostgresFixture fixture)
{
    [Fact]
    public async Task The_messages_of_a_shard_come_in_order_whatever_their_keys()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync(), configure: options => options.BatchSize = 3);
        await queue.AddAsync("a:1", "b:2", "a:3", "4", "b:5");

        var first = await queue.TakeAsync();
        var second = await queue.SettleAndTakeAsync(first!);
        var third = await queue.SettleAndTakeAsync(second!);

        Assert.Equal(["1", "2", "3"], Texts(first));
        Assert.Equal(["4", "5"], Texts(second));
        Assert.Equal(["a", "b", "a"], first!.Batch.Select(message => message.Key));
        Assert.Null(second!.Batch[0].Key);
        Assert.Null(third);
        Assert.Empty(await queue.StoredAsync());
    }

    [Fact]
    public async Task A_failed_message_holds_up_its_key_and_no_other()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync(), configure: options => options.BatchSize = 2);
        await queue.AddAsync("a:1", "b:2", "a:3", "b:4", "a:5", "c:6");

        var first = await queue.TakeAsync();
        first!.Batch[0].Retry("not yet");
        var second = await queue.SettleAndTakeAsync(first);
        var third = await queue.SettleAndTakeAsync(second!);

        Assert.Equal(["1", "2"], Texts(first));
        Assert.Equal(["4", "6"], Texts(second));
        Assert.Null(third);
        Assert.Equal(["1 1", "3 0", "5 0"], await queue.StoredAsync());
    }

    [Fact]
    public async Task A_failed_message_comes_again_alone_and_before_what_has_its_key()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync());
        await queue.AddAsync("a:1", "b:2", "a:3");
        var first = await queue.TakeAsync();
        first!.Batch[0].Retry("not yet");

        var none = await queue.SettleAndTakeAsync(first);
        await queue.MakeDueAsync();
        var again = await queue.TakeAsync();
        var rest = await queue.SettleAndTakeAsync(again!);

        Assert.Null(none);
        Assert.Equal(["1"], Texts(again));
        Assert.Equal(2, again!.Batch[0].Attempt);
        Assert.Equal(["3"], Texts(rest));
        Assert.Equal(1, rest!.Batch[0].Attempt);
    }

    [Fact]
    public async Task A_message_with_an_attempt_behind_it_ends_the_batch_before_it()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync());
        await queue.AddAsync("a:1", "b:2", "c:3");
        await queue.Schema.ExecuteAsync("update {s}.messages set attempts = 1, due_at = now() where key = 'b'");
        await queue.UpkeepAsync();

        var first = await queue.TakeAsync();
        var second = await queue.SettleAndTakeAsync(first!);
        var third = await queue.SettleAndTakeAsync(second!);

        Assert.Equal(["1"], Texts(first));
        Assert.Equal(["2"], Texts(second));
        Assert.Equal(["3"], Texts(third));
    }

    [Fact]
    public async Task What_has_the_key_of_a_failed_message_is_given_back_when_nothing_was_said_of_it()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync());
        await queue.AddAsync("a:1", "b:2", "a:3", "b:4", "a:5");
        var batch = (await queue.TakeAsync())!;

        batch.Batch[0].Retry("not yet");
        batch.Batch[4].Complete();
        await queue.ExchangeAsync([batch], claims: 0);

        Assert.Equal(["1 1", "3 0"], await queue.StoredAsync());
        Assert.Equal(MessageOutcome.Released, batch.Batch[2].Outcome);
    }

    [Fact]
    public async Task Messages_without_a_key_are_held_up_by_one_another()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync());
        await queue.AddAsync("1", "2", "a:3");
        var batch = (await queue.TakeAsync())!;

        batch.Batch[0].Retry("not yet");
        var next = await queue.SettleAndTakeAsync(batch);

        Assert.Null(next);
        Assert.Equal(["1 1", "2 0"], await queue.StoredAsync());
    }

    [Fact]
    public async Task A_delayed_message_holds_up_what_comes_behind_it_and_not_what_came_before()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync());
        await queue.AddAsync("a:1", "a:2", "a:3", "b:4");
        await queue.Schema.ExecuteAsync("update {s}.messages set due_at = now() + interval '1 h' where convert_from(payload, 'UTF8') = '2'");

        var batch = await queue.TakeAsync();
        var none = await queue.SettleAndTakeAsync(batch!);
        var upkeep = await queue.UpkeepAsync();

        Assert.Equal(["1", "4"], Texts(batch));
        Assert.Null(none);
        Assert.False(upkeep.HasWork);
        Assert.InRange(upkeep.NextDue!.Value, TimeSpan.FromMinutes(50), TimeSpan.FromMinutes(60));
    }

    [Fact]
    public async Task A_batch_ends_before_the_message_that_would_pass_its_bytes_and_has_one_at_least()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync(), configure: options => options.MaxBatchBytes = 10);
        await queue.AddAsync("a:1234", "a:123456", "a:1", "a:12345678901", "a:2");

        var first = await queue.TakeAsync();
        var second = await queue.SettleAndTakeAsync(first!);
        var third = await queue.SettleAndTakeAsync(second!);
        var fourth = await queue.SettleAndTakeAsync(third!);

        Assert.Equal(["1234", "123456"], Texts(first));
        Assert.Equal(["1"], Texts(second));
        Assert.Equal(["12345678901"], Texts(third));
        Assert.Equal(["2"], Texts(fourth));
    }

    [Fact]
    public async Task Headers_count_as_bytes_of_a_batch()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync(), configure: options => options.MaxBatchBytes = 20);
        await queue.AddAsync("a:1", "a:2", "a:3");
        await queue.Schema.ExecuteAsync("update {s}.messages set header = '12345678'");

        var claim = await queue.TakeAsync();

        Assert.Equal(["1", "2"], Texts(claim));
        Assert.Equal(18, claim!.Bytes);
    }
}
