using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Postgres.Tests.Sending;

/// <summary>What can never be stored is refused, with a sentence, and its neighbours are stored.</summary>
public sealed class RefusalTests(PostgresFixture postgres)
{
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
    public async Task A_property_that_makes_no_sense_refuses_its_batch_whole(string name, string value)
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        var header = new MessageHeader { Properties = [new(name, value)] };

        var error = await place.FailAsync(
            place.Batch("tasks", 1, "one"), place.Batch("tasks", 2, Some.Message("good"), Some.Message("bad", header), Some.Message("bad too", header)), place.Batch("tasks", 3, "two"));

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Acknowledged], error.Outcomes);
        Assert.Contains(name, error.Message, StringComparison.Ordinal);
        Assert.Equal(["one", "two"], await place.TextsAsync());
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
