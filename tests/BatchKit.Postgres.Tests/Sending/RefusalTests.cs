using BatchKit.Testing;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Tests.Sending;

/// <summary>What can never be stored is refused, with a sentence, and its neighbours are stored.</summary>
public sealed class RefusalTests(PostgresFixture postgres)
{
    private static readonly MessageHeader Unreadable = new() { Properties = [new(QueueMessageHeader.DelayProperty, "soon")] };

    [Fact]
    public async Task Output_for_a_connection_is_refused_and_told_what_to_set()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);

        var error = await place.FailAsync(Some.Batch(Some.Connection(), place.Producer, 1, "lost"), place.Batch("tasks", 2, "neighbour"));

        Assert.Equal([BatchOutcome.Refused, BatchOutcome.Acknowledged], error.Outcomes);
        Assert.Contains(nameof(PostgresOptions.FrameQueue), error.Message, StringComparison.Ordinal);
        Assert.Equal(["neighbour"], await place.TextsAsync());
    }

    [Fact]
    public async Task A_name_that_is_no_queues_is_refused()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);

        var error = await place.FailAsync(place.Batch("before", 1, "one"), place.Batch("nul\0", 2, "lost"), place.Batch("behind", 3, "two"));

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Acknowledged], error.Outcomes);
        Assert.Equal(["one", "two"], await place.TextsAsync());
    }

    [Theory]
    [InlineData(QueueMessageHeader.DelayProperty, "soon")]
    [InlineData(QueueMessageHeader.DelayProperty, "1.5")]
    [InlineData(QueueMessageHeader.DelayProperty, "")]
    [InlineData(QueueMessageHeader.DelayProperty, "9223372036854775807")]
    [InlineData(QueueMessageHeader.PriorityProperty, "high")]
    [InlineData(QueueMessageHeader.UniqueKeyProperty, "")]
    [InlineData(QueueMessageHeader.UniqueKeyProperty, "nul\0")]
    public async Task A_property_that_makes_no_sense_refuses_its_message_and_no_neighbour(string name, string value)
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        var header = new MessageHeader { Properties = [new(name, value)] };

        var error = await place.FailAsync(
            place.Batch("tasks", 1, "one"), place.Batch("tasks", 2, Some.Message("bad", header), Some.Message("good"), Some.Message("bad too", header)), place.Batch("tasks", 3, Some.Message("bad", header)), place.Batch("tasks", 4, "two"));

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Acknowledged], error.Outcomes);
        Assert.Equal([new(1, 0), new(1, 2)], error.RefusedMessages.Where(static refusal => refusal.Batch == 1));
        Assert.Contains(name, error.Message, StringComparison.Ordinal);
        Assert.Equal(["one", "good", "two"], await place.TextsAsync());
    }

    [Fact]
    public async Task A_send_whose_only_batch_has_a_refused_message_names_it()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);

        var error = await place.FailAsync(place.Batch("tasks", 1, Some.Message("good"), Some.Message("bad", Unreadable), Some.Message("good too")));

        Assert.Equal([BatchOutcome.Acknowledged], error.Outcomes);
        Assert.Equal([new(0, 1)], error.RefusedMessages);
        Assert.Equal(["good", "good too"], await place.TextsAsync());
    }

    [Fact]
    public async Task A_refused_message_of_a_send_that_the_server_does_not_take_is_no_outcome()
    {
        await using var place = SendingPlace.Make(await postgres.NewSchemaAsync(), settings: "Options=-c lock_timeout=100ms");
        await place.RetrySendAsync(1, "one");
        await using var rival = await place.Schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using var transaction = await rival.BeginTransactionAsync(TestContext.Current.CancellationToken);
        await using (var command = new NpgsqlCommand($"select from {place.Schema.Quoted}.producers for update", rival))
            await command.ExecuteNonQueryAsync(TestContext.Current.CancellationToken);

        await Assert.ThrowsAsync<IOException>(() => place.SendAsync(place.Batch("tasks", 2, Some.Message("bad", Unreadable), Some.Message("good"))));
        await transaction.RollbackAsync(TestContext.Current.CancellationToken);
        var error = await place.FailAsync(place.Batch("tasks", 2, Some.Message("bad", Unreadable), Some.Message("good")));

        Assert.Equal([new(0, 0)], error.RefusedMessages);
        Assert.Equal(["one", "good"], await place.TextsAsync());
    }

    [Fact]
    public void A_header_with_what_no_queue_stores_is_not_created()
    {
        Assert.All(
            [new('k', 1025), string.Empty, "half \ud83d", "nul\0"],
            static key => Assert.Equal("uniqueKey", Assert.Throws<ArgumentException>(() => QueueMessageHeader.Create(uniqueKey: key)).ParamName));
        Assert.All(
            [new('k', MessageHeader.MaxTextBytes + 1), "half \ud83d", "nul\0"],
            static key => Assert.Equal("key", Assert.Throws<ArgumentException>(() => QueueMessageHeader.Create(key: key)).ParamName));
        Assert.Throws<ArgumentOutOfRangeException>(() => QueueMessageHeader.Create(delay: TimeSpan.MaxValue));
        Assert.Equal(4, QueueMessageHeader.Create(TimeSpan.FromDays(36_500), priority: 1, new('k', 1024), key: string.Empty, UniqueScope.Waiting).Properties.Length);
    }

    [Fact]
    public async Task Keys_that_PostgreSQL_cannot_take_are_refused()
    {
        await using var place = await SendingPlace.MakeAsync(postgres, options => options.Shards = 4);
        MessageHeader[] headers =
        [
            new() { Key = "nul\0" },
            new() { Key = "half \ud800" },
            new() { Properties = [new(QueueMessageHeader.UniqueKeyProperty, "half \udfff")] },
        ];

        var error = await place.FailAsync([.. headers.Select((header, index) => place.Batch("tasks", index + 1, Some.Message("bad", header))), place.Batch("tasks", 9, "neighbour")]);

        Assert.Equal([.. headers.Select(_ => BatchOutcome.Refused), BatchOutcome.Acknowledged], error.Outcomes);
        Assert.Equal(["neighbour"], await place.TextsAsync());
    }

    [Fact]
    public async Task A_send_of_which_nothing_can_be_stored_is_refused_as_a_whole()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);

        var error = await place.FailAsync(Some.Batch(Some.Connection(), place.Producer, 1, "lost"));

        Assert.Equal([BatchOutcome.Refused], error.Outcomes);
        Assert.Empty(await place.TextsAsync());
    }
}
