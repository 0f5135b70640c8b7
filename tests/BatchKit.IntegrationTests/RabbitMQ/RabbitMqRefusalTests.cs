using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.RabbitMQ;
using BatchKit.Transports;
using static BatchKit.IntegrationTests.RabbitMQ.RabbitMqEnds;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>One bad item among a hundred is refused alone, and what a receiver can't read harms nothing behind it.</summary>
public sealed class RabbitMqRefusalTests(RabbitMqFixture fixture, OwnRabbitMqFixture own) : IClassFixture<OwnRabbitMqFixture>
{
    private const int Bad = 50;

    private readonly CollectingTransport _arrived = new();
    private readonly ProducerId _producer = Some.Producer();

    [Theory]
    [InlineData("type")]
    [InlineData("property")]
    [InlineData("kind")]
    public async Task A_header_that_can_t_be_encoded_is_refused_alone_and_the_99_arrive_in_order(string part)
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync());
        var tooLong = new string('x', MessageHeader.MaxTextBytes + 1);
        var header = part switch
        {
            "type" => new MessageHeader { Type = tooLong },
            "property" => new MessageHeader { Properties = [new("name", tooLong)] },
            _ => new MessageHeader { Kind = (MessageKind)9 },
        };

        var failure = await SendHundredAsync(options, Some.Message("bad", header));

        Assert.Contains("can't be encoded", failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_message_above_the_frame_limit_is_refused_alone_and_the_99_arrive_in_order()
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync(), options => options.MaxFrameBytes = 16 * 1024);

        var failure = await SendHundredAsync(options, Some.Message(new string('x', 20_000)));

        Assert.Contains(nameof(RabbitMqOptions.MaxFrameBytes), failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_message_above_the_brokers_limit_is_refused_alone_and_the_99_arrive_in_order()
    {
        var server = await own.GetAsync();
        await server.SetMaxMessageBytesAsync(32 * 1024);
        var options = RabbitMqSome.Options(server);

        var failure = await SendHundredAsync(options, Some.Message(new string('x', 40_000)));

        Assert.Contains("max size", failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_send_that_shares_a_channel_with_one_above_the_brokers_limit_is_not_refused()
    {
        var server = await own.GetAsync();
        await server.SetMaxMessageBytesAsync(32 * 1024);
        var options = RabbitMqSome.Options(server);
        await using var receiver = await StartAsync(options, _arrived);
        await using var transport = new RabbitMqTransport(options);
        var handle = Some.Connection(Node);
        await transport.SendAsync(new[] { Some.Batch(handle, _producer, 1, "line 0") }, CancellationToken.None);

        var bad = transport.SendAsync(new[] { Some.Batch(handle, Some.Producer(), 1, new string('x', 40_000)) }, CancellationToken.None).AsTask();
        for (var line = 1; line < 50; line++)
            await SendUntilTakenAsync(transport, Some.Batch(handle, _producer, line + 1, $"line {line}"));

        await Assert.ThrowsAsync<BatchSendException>(() => bad.WithinDeadline());
        await _arrived.WaitForMessagesAsync(50);
        Assert.Equal(Some.Lines(50), _arrived.Texts);
    }

    [Fact]
    public async Task A_frame_of_the_next_version_is_refused_counted_and_logged_and_those_behind_it_arrive()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server, options => options.DeadLetterExchange = $"{options.Prefix}.dead");
        await using var probe = await RabbitMqProbe.ConnectAsync(server);
        var dead = await probe.ListenForDeadLettersAsync(options);
        var log = new LogCollector();
        await using var receiver = new RabbitMqReceiver(options, Node, new BatchReceiver(_arrived), logger: new Microsoft.Extensions.Logging.Logger<RabbitMqReceiver>(log));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await using var transport = new RabbitMqTransport(options);

        await probe.PublishAsync(options, "1", RabbitMqSome.FrameOfNextVersion());
        await SendLinesAsync(transport, count: 3);
        await _arrived.WaitForMessagesAsync(3);

        // It stays in the dead-letter queue for a receiver that can read it.
        await probe.WaitForCountAsync(dead, 1);
        Assert.Equal(Some.Lines(3), _arrived.Texts);
        Assert.Equal((1, 3), (receiver.GetStatistics().MalformedFrames, receiver.GetStatistics().ReceivedFrames));
        Assert.Contains("The frame has version", log.Text, StringComparison.Ordinal);
        Assert.Null(receiver.Fault);
    }

    private static async Task SendUntilTakenAsync(RabbitMqTransport transport, MessageBatch batch)
    {
        while (true)
        {
            try
            {
                await transport.SendAsync(new[] { batch }, CancellationToken.None).AsTask().WithinDeadline();
                return;
            }
            catch (IOException)
            {
                // The channel closed under it; dispatch would send it again too.
            }
        }
    }

    private async Task<BatchSendException> SendHundredAsync(RabbitMqOptions options, BatchMessage bad)
    {
        await using var receiver = await StartAsync(options, _arrived);
        await using var transport = new RabbitMqTransport(options);
        var batches = Enumerable.Range(0, 100)
            .Select(index => MessageBatch.Create(Some.Connection(Node), _producer, index + 1, index == Bad ? bad : Some.Message($"line {index}")))
            .ToArray();

        var failure = await Assert.ThrowsAsync<BatchSendException>(() => transport.SendAsync(batches, CancellationToken.None).AsTask().WithinDeadline());

        await _arrived.WaitForMessagesAsync(99);
        Assert.Equal(Enumerable.Range(0, 100).Where(index => index != Bad).Select(index => $"line {index}"), _arrived.Texts);
        Assert.Equal(Enumerable.Range(0, 100).Select(index => index == Bad ? BatchOutcome.Refused : BatchOutcome.Acknowledged), failure.Outcomes);
        return failure;
    }
}
