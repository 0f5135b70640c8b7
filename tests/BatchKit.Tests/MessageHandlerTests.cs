using System.Text;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.Tests;

public sealed class MessageHandlerTests
{
    private readonly ProducerId _producer = Some.Producer();
    private readonly Journal _journal = new();
    private readonly ServiceCollection _services = new();
    private readonly OutputHandle _topic = OutputHandle.Named("sensors");

    public MessageHandlerTests() => _services.AddSingleton(_journal).AddScoped<Unit>();

    [Fact]
    public async Task The_messages_of_a_send_are_handled_together_in_a_scope_of_their_own()
    {
        var transport = Transport();

        await SendAsync(transport, Some.Batch(_topic, _producer, 1, "a", "b"), Some.Batch(Some.Connection(), _producer, 2, "c"));
        await SendAsync(transport, Some.Batch(_topic, _producer, 3, "d", "e"));

        Assert.Equal(["a b c", "disposed 1", "d e", "disposed 2"], _journal.Lines);
    }

    [Fact]
    public async Task A_handler_sees_handle_header_and_key_of_each_message()
    {
        var header = Some.FullHeader();
        ReceivedMessage? seen = null;
        _journal.OnMessage = message => seen ??= new ReceivedMessage(message.Handle, message.Payload, message.Header);

        await SendAsync(Transport(), MessageBatch.Create(_topic, _producer, 1, Some.Message("full", header), Some.Message("plain")));

        Assert.Equal((_topic, "key äöü"), (seen!.Handle, seen.Key));
        Assert.Same(header, seen.Header);
    }

    [Fact]
    public async Task A_refused_message_leaves_the_others_of_its_batch_acknowledged()
    {
        _journal.OnMessage = message =>
        {
            if (Text(message) == "bad")
                message.Refuse("It is bad.");
        };

        var failure = await Assert.ThrowsAsync<BatchSendException>(
            () => SendAsync(Transport(), Some.Batch(_topic, _producer, 1, "a", "bad"), Some.Batch(_topic, _producer, 2, "b")));

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Acknowledged], failure.Outcomes);
        Assert.Equal([new MessageRefusal(Batch: 0, Message: 1)], failure.RefusedMessages);
        Assert.Contains("It is bad.", failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task When_a_handler_fails_it_gets_each_message_alone_and_a_send_goes_on_at_the_one_that_fails()
    {
        var transport = Transport();
        _journal.Fails = static text => text == "bad";
        MessageBatch[] batches = [Some.Batch(_topic, _producer, 1, "a"), Some.Batch(_topic, _producer, 2, "b", "bad", "c")];

        var failure = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(transport, batches));
        _journal.Fails = static _ => false;
        await SendAsync(transport, batches[1]);

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Unacknowledged], failure.Outcomes);
        Assert.Equal(["a b bad failed", "a", "b", "bad failed", "bad", "c"], _journal.Lines.Where(static line => !line.StartsWith("disposed", StringComparison.Ordinal)));
    }

    [Fact]
    public async Task A_message_that_is_refused_by_an_exception_is_refused_alone()
    {
        _journal.OnMessage = static message => message.Read<Moved>();
        _services.AddBatchKit().UseJson(SomeJson.Default);

        var failure = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(Transport(), Some.Batch(_topic, _producer, 1, "{}", "no JSON", "{}")));

        Assert.Equal([BatchOutcome.Acknowledged], failure.Outcomes);
        Assert.Equal([new MessageRefusal(Batch: 0, Message: 1)], failure.RefusedMessages);
    }

    [Fact]
    public void A_typed_message_is_read_as_its_type_only_and_one_without_a_type_as_any()
    {
        var codec = new JsonMessageCodec(SomeJson.Default);
        var moved = new ReceivedMessage(_topic, Some.Bytes("""{"room":7,"count":1}"""), codec.GetHeader<Moved>(), codec);
        var foreign = new ReceivedMessage(_topic, moved.Payload, header: null, codec);
        var broken = new ReceivedMessage(_topic, Some.Bytes("no JSON"), codec.GetHeader<Moved>(), codec);

        Assert.True(moved.TryRead(out Moved value));
        Assert.False(moved.TryRead(out ChatLine? _));
        Assert.True(foreign.TryRead(out Moved same));
        Assert.False(broken.TryRead(out Moved _));

        Assert.Equal((new Moved(7, 1), new Moved(7, 1)), (value, same));
        Assert.Null(moved.RefusalReason);
        Assert.Contains("can't be decoded as Moved", broken.RefusalReason, StringComparison.Ordinal);
    }

    [Fact]
    public void Reading_a_value_without_a_codec_says_what_to_call()
    {
        var message = new ReceivedMessage(_topic, Some.Bytes("{}"));

        var failure = Assert.Throws<InvalidOperationException>(() => message.Read<Moved>());

        Assert.Contains("UseJson", failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_receiver_refuses_the_message_that_always_fails_and_delivers_the_others()
    {
        _journal.Fails = static text => text == "bad";
        var clock = new ManualTimeProvider();
        var receiver = new BatchReceiver(Transport(), new BatchReceiverOptions { DeliveryTimeout = TimeSpan.FromSeconds(1) }, clock);

        var receiving = receiver.ReceiveAsync(Some.Frame(Some.Batch(_topic, _producer, 1, "a", "bad", "c")), CancellationToken.None).AsTask();
        for (var step = 0; step < 100 && !receiving.IsCompleted; step++)
            clock.Advance(TimeSpan.FromMilliseconds(100));
        await receiving.WithinDeadline();

        var statistics = receiver.GetStatistics();
        Assert.Equal((2, 1), (statistics.DeliveredMessages, statistics.RefusedMessages));
    }

    [Fact]
    public async Task A_cancelled_handler_is_not_called_again()
    {
        using var stop = new CancellationTokenSource();
        _journal.OnMessage = _ =>
        {
            stop.Cancel();
            throw new OperationCanceledException(stop.Token);
        };

        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => Transport().SendAsync(new[] { Some.Batch(_topic, _producer, 1, "a", "b") }, stop.Token).WithinDeadline());

        Assert.Equal(["disposed 1"], _journal.Lines);
    }

    private static Task SendAsync(IBatchTransport transport, params MessageBatch[] batches) => transport.SendAsync(batches, CancellationToken.None).WithinDeadline();

    private static string Text(ReceivedMessage message) => Encoding.UTF8.GetString(message.Payload.Span);

    private IBatchTransport Transport()
    {
        var builder = _services.Any(static service => service.ServiceType == typeof(IOutputBuffer)) ? null : _services.AddBatchKit();
        builder ??= (BatchKitBuilder)_services.Single(static service => service.ServiceType == typeof(BatchKitBuilder)).KeyedImplementationInstance!;
        var factory = builder.AddHandler<Recorder>();
        return factory(_services.BuildServiceProvider());
    }

    private sealed class Journal
    {
        public List<string> Lines { get; } = [];

        public int Scopes { get; set; }

        public Func<string, bool> Fails { get; set; } = static _ => false;

        public Action<ReceivedMessage> OnMessage { get; set; } = static _ => { };
    }

    /// <summary>A scoped service, such as a unit of work.</summary>
    private sealed class Unit(Journal journal) : IAsyncDisposable
    {
        private readonly int _number = ++journal.Scopes;

        public ValueTask DisposeAsync()
        {
            journal.Lines.Add($"disposed {_number}");
            return ValueTask.CompletedTask;
        }
    }

    private sealed class Recorder(Journal journal, Unit unit) : IMessageHandler
    {
        public ValueTask HandleAsync(IReadOnlyList<ReceivedMessage> batch, CancellationToken cancellationToken)
        {
            Assert.NotNull(unit);
            var texts = new List<string>();
            foreach (var message in batch)
            {
                journal.OnMessage(message);
                texts.Add(Text(message));
                if (!journal.Fails(texts[^1]))
                    continue;
                journal.Lines.Add($"{string.Join(' ', texts)} failed");
                throw new InvalidOperationException("The handler fails.");
            }

            journal.Lines.Add(string.Join(' ', texts));
            return ValueTask.CompletedTask;
        }
    }
}
