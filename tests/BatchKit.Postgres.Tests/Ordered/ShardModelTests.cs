namespace BatchKit.Postgres.Tests.Ordered;

public sealed class ShardModelTests(PostgresFixture fixture)
{
    private const int Steps = 150;

    [Theory]
    [InlineData(1, 1)]
    [InlineData(2, 2)]
    [InlineData(3, 4)]
    [InlineData(4, 4)]
    [InlineData(5, 64)]
    [Trait("Lane", "slow: many random inputs")]
    public async Task Whatever_workers_do_each_keys_messages_are_completed_once_and_in_order(int seed, int shards)
    {
        await using var queue = await OrderedQueue.OpenAsync(await fixture.GetAsync(), shards, options => (options.BatchSize, options.MaxAttempts) = (5, 1000));
        var run = new ShardRun(queue, seed);

        for (var step = 0; step < Steps; step++)
            await run.StepAsync();
        await run.DrainAsync();

        Assert.All([run.Seen.Completed, run.Seen.Buried, run.Seen.Ended], count => Assert.NotEqual(0, count));
    }
}
