using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests;

public sealed class MessageDispatcherTests
{
    private static readonly JsonMessageCodec Codec = new(SomeJson.Default);

    private readonly OutputHandle _player = Some.Connection();
    private readonly ProducerId _producer = Some.Producer();
    private readonly List<string> _handled = [];
    private readonly Queue<Exception> _failures = new();
    private readonly MessageDispatcher _dispatcher;

    public MessageDispatcherTests() => _dispatcher = new MessageDispatcher(Codec)
        .On<ChatLine>((handle, line, _) => HandleAsync($"{handle}: {line.From} says {line.Text}", line.Text))
        .On<Moved>((_, moved, _) => HandleAsync($"moved to {moved.Room}", string.Empty));

    private static CancellationToken Cancellation => TestContext.Current.CancellationToken;

    [Fact]
    public async Task What_was_written_typed_is_handled_by_type_in_order()
    {
        await using var output = new OutputBuffer(_dispatcher, timeProvider: new ManualTimeProvider());
        var typed = new TypedOutput(output, Codec);

        await using (output.BeginBufferingScope(_player))
        {
            typed.Write(_player, new ChatLine("Ana", "one"));
            typed.Write(_player, new Moved(7, 1));
            typed.Write(_player, new ChatLine("Bo", "two"));
        }

        Assert.Equal([$"{_player}: Ana says one", "moved to 7", $"{_player}: Bo says two"], _handled);
    }

    [Fact]
    public async Task Typed_messages_cross_a_frame_and_one_that_no_handler_takes_is_counted_alone()
    {
        await using var way = new InMemoryTransport(_dispatcher);
        await using var output = new OutputBuffer(way, timeProvider: new ManualTimeProvider());
        var typed = new TypedOutput(output, Codec);

        using (output.BeginBufferingScope(_player))
        {
            typed.Write(_player, new ChatLine("Ana", "one"));
            typed.Write(_player, new Other.ChatLine(1), new MessageHeader { Type = "Unheard" });
            typed.Write(_player, new Moved(7, 1));
        }

        await output.FlushAsync(Cancellation);

        var statistics = way.Receiver.GetStatistics();
        Assert.Equal([$"{_player}: Ana says one", "moved to 7"], _handled);
        Assert.Equal((2, 1), (statistics.DeliveredMessages, statistics.RefusedMessages));
    }

    [Theory]
    [InlineData(null, "{}", "has no type")]
    [InlineData("Unheard", "{}", "'Unheard'")]
    [InlineData("Moved", "no JSON", "'Moved' with 7 bytes can't be decoded")]
    [InlineData("ChatLine", "null", "'ChatLine' with 4 bytes can't be decoded")]
    public async Task A_message_that_no_handler_can_take_is_refused_alone(string? type, string payload, string reason)
    {
        var bad = Some.Message(payload, new MessageHeader { Type = type });

        var exception = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(Batch(1, Moved(1)), Batch(2, Moved(2), bad, Moved(3)), Batch(3, Moved(4))));

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Acknowledged, BatchOutcome.Acknowledged], exception.Outcomes);
        Assert.Equal([new MessageRefusal(Batch: 1, Message: 1)], exception.RefusedMessages);
        Assert.Contains(reason, exception.Message, StringComparison.Ordinal);
        Assert.Equal(["moved to 1", "moved to 2", "moved to 3", "moved to 4"], _handled);
    }

    [Fact]
    public async Task A_plain_message_is_refused_alone()
    {
        var exception = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(Batch(1, Some.Message("text"), Moved(1))));

        Assert.Equal([new MessageRefusal(Batch: 0, Message: 0)], exception.RefusedMessages);
        Assert.Equal(["moved to 1"], _handled);
    }

    [Fact]
    public async Task A_handler_refuses_one_message_for_good()
    {
        _failures.Enqueue(new MessageRefusedException("Ana is banned."));

        var exception = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(Batch(1, Line("fail"), Line("on"))));

        Assert.Equal([new MessageRefusal(Batch: 0, Message: 0)], exception.RefusedMessages);
        Assert.Contains("Ana is banned.", exception.Message, StringComparison.Ordinal);
        Assert.Equal([$"{_player}: Ana says on"], _handled);
    }

    [Fact]
    public async Task A_handler_that_fails_is_tried_again_and_nothing_before_it()
    {
        _failures.Enqueue(new IOException("first"));
        _failures.Enqueue(new IOException("second"));
        MessageBatch[] batches = [Batch(1, Line("one")), Batch(2, Line("two"), Some.Message("refused"), Line("fail"), Line("three")), Batch(3, Line("four"))];

        var first = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(batches));
        var second = await Assert.ThrowsAsync<IOException>(() => SendAsync(batches[1..]));
        var third = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(batches[1..]));

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Unacknowledged, BatchOutcome.Unacknowledged], first.Outcomes);
        Assert.Equal("first", first.InnerException?.Message);
        Assert.Empty(first.RefusedMessages);
        Assert.Equal("second", second.Message);
        Assert.Equal([new MessageRefusal(Batch: 0, Message: 1)], third.RefusedMessages);
        Assert.Equal(["one", "two", "fail", "three", "four"], _handled.Select(line => line.Split(' ')[^1]));
    }

    [Fact]
    public async Task A_failed_batch_goes_on_where_it_ended_after_others_were_sent()
    {
        _failures.Enqueue(new IOException("once"));
        var failed = Batch(1, Line("one"), Line("fail"));
        await Assert.ThrowsAsync<IOException>(() => SendAsync(failed));

        await SendAsync(Batch(2, Line("two")));
        await SendAsync(failed);
        await SendAsync(failed);

        Assert.Equal(["one", "two", "fail", "one", "fail"], _handled.Select(line => line.Split(' ')[^1]));
    }

    [Fact]
    public async Task What_is_remembered_of_failed_batches_is_bounded()
    {
        const int remembered = 1024;
        for (var number = 1; number <= remembered + 1; number++)
            _failures.Enqueue(new IOException("once"));
        for (var number = 1; number <= remembered + 1; number++)
            await Assert.ThrowsAsync<IOException>(() => SendAsync(Batch(number, Line("before"), Line("fail"))));
        _handled.Clear();

        await SendAsync(Batch(1, Line("before"), Line("fail")));
        await SendAsync(Batch(2, Line("before"), Line("fail")));

        Assert.Equal(["before", "fail", "fail"], _handled.Select(line => line.Split(' ')[^1]));
    }

    [Fact]
    public async Task Outcomes_of_a_send_inside_a_handler_do_not_count_for_the_dispatchers()
    {
        _failures.Enqueue(new BatchSendException([BatchOutcome.Acknowledged, BatchOutcome.Refused], "inner"));

        var exception = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(Batch(1, Line("fail")), Batch(2, Line("two"))));

        Assert.Equal([BatchOutcome.Unacknowledged, BatchOutcome.Unacknowledged], exception.Outcomes);
        Assert.Equal("inner", exception.InnerException?.Message);
        Assert.Empty(_handled);
    }

    [Fact]
    public async Task A_batch_that_was_given_up_does_not_shorten_the_next()
    {
        _failures.Enqueue(new IOException("given up"));
        await Assert.ThrowsAsync<IOException>(() => SendAsync(Batch(1, Line("one"), Line("fail"))));

        await SendAsync(Batch(2, Line("two"), Line("three")));

        Assert.Equal(["one", "two", "three"], _handled.Select(line => line.Split(' ')[^1]));
    }

    [Fact]
    public async Task A_cancelled_send_goes_on_where_it_ended()
    {
        using var cancellation = CancellationTokenSource.CreateLinkedTokenSource(Cancellation);
        var dispatcher = new MessageDispatcher(Codec).On<Moved>(async (_, moved, _) =>
        {
            _handled.Add($"{moved.Room}");
            await cancellation.CancelAsync();
        });
        var batch = Batch(1, Moved(1), Moved(2));

        await Assert.ThrowsAsync<OperationCanceledException>(async () => await dispatcher.SendAsync(new[] { batch }, cancellation.Token));
        await dispatcher.SendAsync(new[] { batch }, Cancellation);

        Assert.Equal(["1", "2"], _handled);
    }

    [Fact]
    public void A_type_is_refused_a_second_handler()
    {
        var exception = Assert.Throws<InvalidOperationException>(() => _dispatcher.On<Moved>((_, _, _) => default));

        Assert.Contains("'Moved'", exception.Message, StringComparison.Ordinal);
    }

    private static BatchMessage Moved(int room) => Some.Message($$"""{"room":{{room}},"count":1}""", Codec.GetHeader<Moved>());

    private static BatchMessage Line(string text) => Some.Message($$"""{"from":"Ana","text":"{{text}}"}""", Codec.GetHeader<ChatLine>());

    private MessageBatch Batch(long number, params BatchMessage[] messages) => MessageBatch.Create(_player, _producer, number, messages);

    private Task SendAsync(params MessageBatch[] batches) => _dispatcher.SendAsync(batches, Cancellation).AsTask();

    private ValueTask HandleAsync(string line, string text)
    {
        if (text == "fail" && _failures.TryDequeue(out var failure))
            throw failure;
        _handled.Add(line);
        return default;
    }
}
