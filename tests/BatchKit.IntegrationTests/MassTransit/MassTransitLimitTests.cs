using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.MassTransit;
using BatchKit.Testing;
using BatchKit.TestServers.RabbitMQ;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>One byte below, at and above each limit of the transport, the protocol and the broker, over MassTransit.</summary>
public sealed class MassTransitLimitTests(RabbitMqFixture fixture, OwnRabbitMqFixture own) : IClassFixture<OwnRabbitMqFixture>
{
    private const int MaxFrameBytes = 4096;

    private readonly string _prefix = Some.Name("limits");
    private readonly ProducerId _producer = Some.Producer();

    [Theory]
    [InlineData(-1, true)]
    [InlineData(0, true)]
    [InlineData(1, false)]
    public async Task A_frame_has_up_to_MaxFrameBytes(int above, bool isAccepted)
    {
        await using var node = await StartAsync(await fixture.GetAsync(), static options => options.MaxFrameBytes = MaxFrameBytes);
        var bytes = MaxFrameBytes - RabbitMqEnds.FrameOverheadBytes(4000) + above;

        var failure = await Record.ExceptionAsync(() => SendAsync(node, 1, bytes));
        await SendAsync(node, 2, 1);

        await AssertArrivedAsync(node, isAccepted ? [bytes, 1] : [1]);
        if (!isAccepted)
            Assert.Contains("more than MaxFrameBytes (4096)", Assert.IsType<BatchSendException>(failure).Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(-1, true)]
    [InlineData(0, true)]
    [InlineData(1, false)]
    public async Task A_message_has_up_to_the_bytes_that_a_frame_holds_and_a_larger_one_is_rejected_at_the_write(int above, bool isAccepted)
    {
        await using var node = await StartAsync(await fixture.GetAsync(), static options => options.MaxFrameBytes = MaxFrameBytes);
        var payload = new byte[node.Transport.MaxMessageBytes + above];

        var failure = Record.Exception(() => node.Output.Write(Some.Connection(1), payload));
        node.Output.Write(Some.Connection(1), "x"u8);

        await AssertArrivedAsync(node, isAccepted ? [payload.Length, 1] : [1]);
        if (!isAccepted)
            Assert.Contains($"{node.Transport.MaxMessageBytes}", Assert.IsType<OutputOverflowException>(failure).Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Bodies_around_the_largest_frame_of_AMQP_arrive_whole()
    {
        // The broker's frame_max, less the 8 bytes around a body (AMQP 0-9-1, section 4.2.3).
        const int bodyOfOneFrame = 131_072 - 8;
        await using var node = await StartAsync(await fixture.GetAsync());
        int[] sizes = [.. from frames in (int[])[1, 2] from above in (int[])[-1, 0, 1] select (frames * bodyOfOneFrame) - RabbitMqEnds.FrameOverheadBytes(131_000) + above];

        for (var index = 0; index < sizes.Length; index++)
            await SendAsync(node, index + 1, sizes[index]);

        await AssertArrivedAsync(node, sizes);
    }

    [Fact]
    [Trait("Lane", "night: messages of many megabytes")]
    public async Task The_brokers_max_message_size_is_the_largest_frame_that_it_takes()
    {
        const int maxMessageBytes = 32 * 1024;
        var server = await own.GetAsync();
        await server.SetMaxMessageBytesAsync(maxMessageBytes);
        await using var node = await StartAsync(server);
        var largest = maxMessageBytes - RabbitMqEnds.FrameOverheadBytes(maxMessageBytes);

        await SendAsync(node, 1, largest - 1);
        await SendAsync(node, 2, largest);
        var failure = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(node, 3, largest + 1));
        // The broker closed the channel; a buffer tries again until MassTransit has another one.
        await Until.TrueAsync(async () => await Record.ExceptionAsync(() => SendAsync(node, 4, 1)) is null);

        await AssertArrivedAsync(node, [largest - 1, largest, 1]);
        Assert.Contains($"max size {maxMessageBytes}", failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_scope_of_3_MiB_is_one_message_and_fewer_fit_where_the_broker_takes_less()
    {
        var server = await own.GetAsync();
        await server.SetMaxMessageBytesAsync(16 * 1024 * 1024);
        await using var first = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix));
        var whole = await CountFramesOfScopeAsync(first, node: 1);

        await server.SetMaxMessageBytesAsync(1024 * 1024);
        await using var second = await MassTransitNode.StartReadyAsync(2, MassTransitSome.Settings(server, _prefix));
        await CountFramesOfScopeAsync(second, node: 2);
        var learnt = await CountFramesOfScopeAsync(second, node: 2);

        Assert.Equal((1, 4), (whole, learnt));
    }

    private static async Task<long> CountFramesOfScopeAsync(MassTransitNode process, int node)
    {
        var (before, player, line) = (process.Receiver.GetStatistics().ReceivedFrames, Some.Connection(node), new string('x', 1044));
        var expected = process.Received.MessageCount + 3000;
        await using (process.Output.BeginBufferingScope(player))
        {
            for (var written = 0; written < 3000; written++)
                process.Output.Write(player, Some.Bytes(line));
        }

        await process.Received.WaitForMessagesAsync(expected);
        await Until.TrueAsync(() => process.Receiver.Fault is null);
        return process.Receiver.GetStatistics().ReceivedFrames - before;
    }

    private Task<MassTransitNode> StartAsync(RabbitMqServer server, Action<MassTransitOptions>? configure = null) =>
        MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix, configure: configure), configureOutput: static options => options.MaxBatchBytes = 2048);

    private Task SendAsync(MassTransitNode node, long number, int bytes) =>
        node.Transport.SendAsync(new[] { MessageBatch.Create(Some.Connection(1), _producer, number, new BatchMessage(new byte[bytes])) }, CancellationToken.None).WithinDeadline();

    private static async Task AssertArrivedAsync(MassTransitNode node, int[] sizes)
    {
        await node.Received.WaitForMessagesAsync(sizes.Length);
        Assert.Equal(sizes, node.Received.Messages.Select(static message => message.Payload.Length));
    }
}
