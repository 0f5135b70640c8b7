using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Postgres.Tests.Rows;

/// <summary>The rules of the transport specification that hold where a handle is a queue and a row is a message.</summary>
/// <remarks>
/// These do not: that a batch arrives with its handle, producer and number, because a handler gets messages of one queue; that order holds across handles, because queues are apart; and what a next
/// hop refuses or fails, because a handler says of each message what became of it. That rows sent again are dropped is the table's work, not the receiver's.
/// </remarks>
public sealed class PostgresRowTests(PostgresFixture fixture)
{
    private readonly ProducerId _producer = Some.Producer();

    [Fact]
    public async Task Order_holds_for_each_queue()
    {
        string[] queues = ["a", "b/c", "ä € \"quoted\" 'queue'"];
        await using var way = await OpenAsync(queues);

        for (var number = 1; number <= 300; number++)
            await way.SendAsync(Some.Batch(OutputHandle.Named(queues[number % 3]), _producer, number, $"{number}"));

        for (var index = 0; index < queues.Length; index++)
        {
            await way.Of(queues[index]).WaitForMessagesAsync(100);
            Assert.Equal(Enumerable.Range(1, 300).Where(number => number % 3 == index).Select(number => $"{number}"), way.Of(queues[index]).Texts);
        }
    }

    [Fact]
    public async Task Order_holds_for_each_key()
    {
        await using var way = await OpenAsync(shards: 4, "a");
        var keys = Enumerable.Range(0, 10).Select(key => new MessageHeader { Key = $"key {key}" }).ToArray();

        await way.SendAsync(MessageBatch.Create(OutputHandle.Named("a"), _producer, 1, [.. Enumerable.Range(0, 1000).Select(number => Some.Message($"{number}", keys[number % 10]))]));
        await way.Of("a").WaitForMessagesAsync(1000);

        var byKey = way.Of("a").Messages.GroupBy(message => message.Key!).ToDictionary(group => group.Key, group => group.Select(message => message.Id).ToArray());
        Assert.Equal(10, byKey.Count);
        Assert.All(byKey.Values, ids => Assert.Equal(ids.Order(), ids));
    }

    [Fact]
    public async Task Thousands_of_batches_leave_in_one_send()
    {
        const int count = 4096;
        string[] queues = ["0", "1", "2", "3"];
        await using var way = await OpenAsync(queues);

        await way.SendAsync([.. Enumerable.Range(1, count).Select(number => Some.Batch(OutputHandle.Named($"{number % 4}"), _producer, number, $"{number}"))]);

        foreach (var queue in queues)
        {
            await way.Of(queue).WaitForMessagesAsync(count / 4);
            Assert.Equal(Enumerable.Range(1, count).Where(number => $"{number % 4}" == queue).Select(number => $"{number}"), way.Of(queue).Texts);
        }
    }

    [Fact]
    public async Task Headers_kinds_exclusions_and_properties_survive()
    {
        var header = Some.FullHeader();
        await using var way = await OpenAsync("a");

        await way.SendAsync(MessageBatch.Create(
            OutputHandle.Named("a"), _producer, 1, Some.Message("plain"), Some.Message("full", header), Some.Message("> ", MessageHeader.Prompt)));
        await way.Of("a").WaitForMessagesAsync(3);

        var byText = way.Of("a").Messages.ToDictionary(message => System.Text.Encoding.UTF8.GetString(message.Payload.Span));
        Assert.Null(byText["plain"].Header);
        Assert.Null(byText["plain"].Key);
        Assert.Equivalent(header, byText["full"].Header, strict: true);
        Assert.Equal(header.Key, byText["full"].Key);
        Assert.Equal(MessageKind.Prompt, byText["> "].Header!.Kind);
    }

    [Fact]
    public async Task Empty_and_large_messages_arrive_whole()
    {
        var large = Some.RandomBytes(1024 * 1024);
        await using var way = await OpenAsync("a");

        await way.SendAsync(MessageBatch.Create(OutputHandle.Named("a"), _producer, 1, Some.Message(""), new BatchMessage(large), Some.Message("behind it"), Some.Message("")));
        await way.Of("a").WaitForMessagesAsync(4);

        Assert.Equal(["", "behind it", ""], way.Of("a").Texts.Where((_, index) => index != 1));
        Assert.Equal(large, way.Of("a").Messages[1].Payload.ToArray());
    }

    [Fact]
    public async Task What_is_sent_again_is_dropped()
    {
        await using var way = await OpenAsync("a", "b");
        MessageBatch[] batches = [Some.Batch(OutputHandle.Named("a"), _producer, 1, "one"), Some.Batch(OutputHandle.Named("b"), _producer, 2, "two")];

        await way.SendAsync(batches);
        await way.SendAsync(batches);
        await way.SendAsync([.. batches, Some.Batch(OutputHandle.Named("a"), _producer, 3, "three"), Some.Batch(OutputHandle.Named("b"), _producer, 4, "four")]);
        await way.Of("a").WaitForMessagesAsync(2);
        await way.Of("b").WaitForMessagesAsync(2);

        Assert.Equal(["one", "three"], way.Of("a").Texts);
        Assert.Equal(["two", "four"], way.Of("b").Texts);
    }

    [Fact]
    public async Task A_message_that_the_handler_refuses_does_not_block_its_neighbours()
    {
        await using var way = await OpenAsync("a");
        way.Of("a").Script = message =>
        {
            if (message.Payload.Span.SequenceEqual("refused"u8))
                message.Refuse("The script says so.");
        };

        await way.SendAsync(Some.Batch(OutputHandle.Named("a"), _producer, 1, "before", "refused", "after"));
        await way.Of("a").WaitForMessagesAsync(2);

        Assert.Equal(["before", "after"], way.Of("a").Texts);
    }

    [Fact]
    public async Task A_failing_handler_is_tried_again_without_loss_and_in_order()
    {
        await using var way = await OpenAsync("a");
        way.Of("a").Script = message =>
        {
            if (message.Attempt < 4 && message.Payload.Span.SequenceEqual("1"u8))
                throw new IOException("The script says that this fails.");
        };

        for (var number = 1; number <= 20; number++)
            await way.SendAsync(Some.Batch(OutputHandle.Named("a"), _producer, number, $"{number}"));
        await way.Of("a").WaitForMessagesAsync(20);

        Assert.Equal(Enumerable.Range(1, 20).Select(number => $"{number}"), way.Of("a").Texts);
    }

    [Fact]
    public async Task What_no_queue_can_take_is_refused_and_its_neighbours_arrive()
    {
        await using var way = await OpenAsync("a");

        var exception = await Assert.ThrowsAsync<BatchSendException>(() => way.SendAsync(
            Some.Batch(OutputHandle.Named("a"), _producer, 1, "one"), Some.Batch(Some.Connection(), _producer, 2, "lost"),
            Some.Batch(OutputHandle.Named(new string('x', 2000)), _producer, 3, "lost too"), Some.Batch(OutputHandle.Named("a"), _producer, 4, "four")));
        await way.Of("a").WaitForMessagesAsync(2);

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Refused, BatchOutcome.Acknowledged], exception.Outcomes);
        Assert.Contains(nameof(PostgresOptions.FrameQueue), exception.Message, StringComparison.Ordinal);
        Assert.Equal(["one", "four"], way.Of("a").Texts);
    }

    [Fact]
    public async Task A_cancelled_token_throws_and_sends_nothing()
    {
        await using var way = await OpenAsync("a");
        MessageBatch[] cancelled = [Some.Batch(OutputHandle.Named("a"), _producer, 1, "never")];

        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => way.Transport.SendAsync(cancelled, new CancellationToken(canceled: true)).WithinDeadline());
        await way.SendAsync(Some.Batch(OutputHandle.Named("a"), _producer, 2, "marker"));
        await way.Of("a").WaitForMessagesAsync(1);

        Assert.Equal(["marker"], way.Of("a").Texts);
    }

    [Fact]
    public async Task A_disposed_transport_throws()
    {
        await using var way = await OpenAsync("a");

        await way.Transport.DisposeAsync();

        await Assert.ThrowsAsync<ObjectDisposedException>(() => way.SendAsync(Some.Batch(OutputHandle.Named("a"), _producer, 1, "never")));
    }

    private Task<RowWay> OpenAsync(params string[] queues) => OpenAsync(shards: 1, queues);

    private async Task<RowWay> OpenAsync(int shards, params string[] queues) => await RowWay.OpenAsync(await fixture.NewSchemaAsync(), shards, queues);
}
