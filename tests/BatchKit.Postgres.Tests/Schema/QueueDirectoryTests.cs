using BatchKit.Postgres.Schema;

namespace BatchKit.Postgres.Tests.Schema;

/// <summary>A queue is made once, by whoever needs it first, and found by everyone else.</summary>
public sealed class QueueDirectoryTests(PostgresFixture postgres)
{
    [Fact]
    public async Task Twenty_at_once_find_one_queue_with_its_shards()
    {
        await using var schema = await postgres.NewTablesAsync();

        var entries = await Task.WhenAll(Enumerable.Range(0, 20).Select(async _ =>
        {
            return await new QueueDirectory(schema.DataSource, new Tables(schema.Name)).FindOrCreateAsync("tasks", 3, TestContext.Current.CancellationToken);
        }));

        Assert.Single(entries.Distinct());
        Assert.Equal(3, entries[0].Shards);
        Assert.Equal([0, 1, 2], await schema.ColumnAsync<short>("select shard from {s}.shards order by shard"));
    }

    [Fact]
    public async Task A_queue_keeps_the_shards_that_it_was_made_with()
    {
        await using var schema = await postgres.NewTablesAsync();
        await new QueueDirectory(schema.DataSource, new Tables(schema.Name)).FindOrCreateAsync("tasks", 0, TestContext.Current.CancellationToken);

        var entry = await new QueueDirectory(schema.DataSource, new Tables(schema.Name)).FindOrCreateAsync("tasks", 8, TestContext.Current.CancellationToken);

        Assert.Equal(0, entry.Shards);
        Assert.Equal(0L, await schema.ScalarAsync<long>("select count(*) from {s}.shards"));
    }

    [Fact]
    [Trait("Lane", "night: many handles or messages")]
    public async Task More_queues_than_it_remembers_are_found_all_the_same()
    {
        await using var schema = await postgres.NewTablesAsync();
        await schema.ExecuteAsync("insert into {s}.queues (name) select 'queue ' || n from generate_series(1, 5000) as n");
        var directory = new QueueDirectory(schema.DataSource, new Tables(schema.Name));

        for (var number = 1; number <= 5000; number++)
            Assert.Equal(number, (await directory.FindOrCreateAsync($"queue {number}", 0, TestContext.Current.CancellationToken)).Id);

        Assert.Null(directory.TryFind("queue 1"));
        Assert.NotNull(directory.TryFind("queue 5000"));
    }

    [Theory]
    [InlineData("'; drop table messages; --")]
    [InlineData("\"quoted\"")]
    [InlineData("$1 @p :p \\ %")]
    [InlineData("\U0001F480 \u4e16\u754c")]
    [InlineData(" ")]
    public async Task A_queue_may_have_any_name(string name)
    {
        await using var schema = await postgres.NewTablesAsync();

        await new QueueDirectory(schema.DataSource, new Tables(schema.Name)).FindOrCreateAsync(name, 0, TestContext.Current.CancellationToken);

        Assert.Equal([name], await schema.ColumnAsync<string>("select name from {s}.queues"));
    }

    [Fact]
    public async Task A_queue_may_have_the_longest_name_of_characters_that_do_not_compress()
    {
        var random = new Random(4711);
        var name = string.Concat(Enumerable.Range(0, QueueLimits.MaxNameBytes / 2).Select(_ => (char)random.Next(0x100, 0x7ff)));
        await using var schema = await postgres.NewTablesAsync();

        await new QueueDirectory(schema.DataSource, new Tables(schema.Name)).FindOrCreateAsync(name, 0, TestContext.Current.CancellationToken);

        Assert.Equal([name], await schema.ColumnAsync<string>("select name from {s}.queues"));
    }
}
