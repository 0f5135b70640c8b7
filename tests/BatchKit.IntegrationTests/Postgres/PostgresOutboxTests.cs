using BatchKit.Postgres;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>What an outbox takes, and that it leaves once and in order.</summary>
public sealed class PostgresOutboxTests(PostgresFixture fixture)
{
    private static readonly OutputHandle Room = OutputHandle.Named("room");

    [Fact]
    public async Task What_a_user_rolls_back_never_leaves()
    {
        await using var way = await OutboxWay.CreateAsync(fixture);
        await way.StartAsync();
        Assert.Null(way.Outbox.Fault);

        await way.EnqueueAsync(Room, commits: false, "rolled back");
        var stored = await way.CountStoredAsync();
        await way.EnqueueAsync(Room, commits: true, "committed");
        await way.WaitForAsync(1);
        await way.WaitUntilEmptyAsync();

        Assert.Equal(0, stored);
        Assert.Equal(["committed"], way.Arrived.Texts);
    }

    [Fact]
    public async Task Commits_leave_in_order_whole_and_once()
    {
        await using var way = await OutboxWay.CreateAsync(fixture);
        var header = Some.FullHeader();
        for (var commit = 0; commit < 20; commit++)
            await way.EnqueueAsync(Room, commits: true, Some.Lines(3, start: 3 * commit));
        await way.Outbox.EnqueueAsync(OutputHandle.Connection(7), [Some.Message("full", header)]);

        await way.StartAsync();
        await way.WaitForAsync(61);
        await way.WaitUntilEmptyAsync();

        Assert.Equal(Some.Lines(60), way.Arrived.TextsFor(Room));
        var full = Assert.Single(way.Arrived.MessagesFor(OutputHandle.Connection(7)));
        Assert.Equal((header.Key, header.Kind, header.ContentType), (full.Header!.Key, full.Header.Kind, full.Header.ContentType));
        Assert.Equal(header.Properties, full.Header.Properties);
        Assert.Equal(0, way.Far.Receiver.GetStatistics().DuplicateBatches);
    }

    [Fact]
    public async Task Transactions_that_commit_in_the_other_order_lose_nothing()
    {
        await using var way = await OutboxWay.CreateAsync(fixture);
        await way.StartAsync();
        await using var earlierConnection = await way.Schema.DataSource.OpenConnectionAsync();
        await using var laterConnection = await way.Schema.DataSource.OpenConnectionAsync();
        await using var earlier = await earlierConnection.BeginTransactionAsync();
        await using var later = await laterConnection.BeginTransactionAsync();

        await way.Outbox.EnqueueAsync(Room, [Some.Message("earlier")], earlier);
        await way.Outbox.EnqueueAsync(Room, [Some.Message("later")], later);
        await later.CommitAsync();
        await way.WaitForAsync(1);
        await earlier.CommitAsync();
        await way.WaitForAsync(2);

        Assert.Equal(["later", "earlier"], way.Arrived.Texts);
    }

    [Fact]
    public async Task A_transaction_stores_with_the_users_own_rows()
    {
        await using var way = await OutboxWay.CreateAsync(fixture);
        await way.StartAsync();
        await way.Schema.ExecuteAsync("create table {s}.orders (id int primary key)");
        await using var connection = await way.Schema.DataSource.OpenConnectionAsync();
        await using (var transaction = await connection.BeginTransactionAsync())
        {
            await way.Outbox.EnqueueAsync(Room, [Some.Message("order 1")], transaction);
            await using var command = connection.CreateCommand();
            command.CommandText = $"insert into {way.Schema.Quoted}.orders values (1), (1)";

            await Assert.ThrowsAsync<Npgsql.PostgresException>(() => command.ExecuteNonQueryAsync());
            await Assert.ThrowsAsync<Npgsql.PostgresException>(() => way.Outbox.EnqueueAsync(Room, [Some.Message("too late")], transaction));
        }

        await way.Outbox.EnqueueAsync(Room, [Some.Message("order 2")]);
        await way.WaitForAsync(1);

        Assert.Equal(["order 2"], way.Arrived.Texts);
    }

    [Fact]
    public async Task An_output_buffer_stores_and_all_of_it_arrives()
    {
        await using var way = await OutboxWay.CreateAsync(fixture);
        await using (var output = new OutputBuffer(way.Outbox))
        {
            for (var round = 0; round < 10; round++)
            {
                await using var scope = output.BeginBufferingScope(Room);
                for (var line = 0; line < 100; line++)
                    output.Write(Room, Some.Bytes($"line {(100 * round) + line}"));
            }

            Assert.Equal(1000, output.GetStatistics().AcknowledgedMessages);
        }

        Assert.Equal(10, await way.CountStoredAsync());
        await way.StartAsync();
        await way.WaitForAsync(1000);
        await way.WaitUntilEmptyAsync();

        Assert.Equal(Some.Lines(1000), way.Arrived.Texts);
        Assert.Equal(1, way.Inner.Sends);
    }

    [Fact]
    public async Task A_large_enqueue_travels_in_batches_that_the_next_hop_takes()
    {
        await using var way = await OutboxWay.CreateAsync(fixture);
        await using var small = way.Make(new CollectingTransport(maxMessageBytes: 1000));
        var lines = Enumerable.Range(0, 100).Select(line => $"line {line} {new string('x', 700)}").ToArray();

        await small.EnqueueAsync(Room, Array.ConvertAll(lines, line => Some.Message(line)));
        var rows = await way.CountStoredAsync();
        await way.StartAsync();
        await way.WaitForAsync(100);

        Assert.Equal(1, rows);
        Assert.Equal(lines, way.Arrived.Texts);
        Assert.All(way.Arrived.Batches, batch => Assert.InRange(batch.Messages.Sum(message => message.Payload.Length), 1, 1000));
        Assert.Single(way.Arrived.Batches.Select(batch => batch.Producer).Distinct());
    }

    [Fact]
    public async Task What_it_can_not_take_is_refused_at_the_call()
    {
        await using var way = await OutboxWay.CreateAsync(fixture);
        await using var small = way.Make(new CollectingTransport(maxMessageBytes: 10));
        await using var tasks = way.Make(configure: options => options.Name = "tasks");
        await PostgresSchema.EnsureSchemaAsync(way.Schema.DataSource, way.Schema.Name);
        await QueueRows.CreateAsync(way.Schema, "tasks");

        await Assert.ThrowsAsync<ArgumentException>("messages", () => small.EnqueueAsync(Room, [Some.Message("eleven bytes")]));
        await Assert.ThrowsAsync<ArgumentException>("messages", () => small.EnqueueAsync(Room, []));
        await Assert.ThrowsAsync<ArgumentException>("handle", () => small.EnqueueAsync(default, [Some.Message("x")]));
        var error = await Assert.ThrowsAsync<InvalidOperationException>(() => tasks.EnqueueAsync(Room, [Some.Message("x")]));

        Assert.Equal(10, small.MaxMessageBytes);
        Assert.Contains("'tasks' has 0 shards", error.Message, StringComparison.Ordinal);
        Assert.Equal(0, await way.CountStoredAsync());
    }
}
