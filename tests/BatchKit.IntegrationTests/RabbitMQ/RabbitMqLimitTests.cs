using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.RabbitMQ;
using BatchKit.Transports;
using Microsoft.Extensions.Options;
using static BatchKit.IntegrationTests.RabbitMQ.RabbitMqEnds;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>One byte below, at and above each limit of the transport, the protocol and the broker.</summary>
public sealed class RabbitMqLimitTests(RabbitMqFixture fixture, OwnRabbitMqFixture own) : IClassFixture<OwnRabbitMqFixture>
{
    private const int MaxFrameBytes = 4096;

    private static readonly int OverheadBytes = RabbitMqEnds.FrameOverheadBytes(4000);

    private readonly CollectingTransport _arrived = new();
    private readonly ProducerId _producer = Some.Producer();

    [Theory]
    [InlineData(-1, true)]
    [InlineData(0, true)]
    [InlineData(1, false)]
    public async Task A_frame_has_up_to_MaxFrameBytes(int above, bool isAccepted)
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync(), options => options.MaxFrameBytes = MaxFrameBytes);
        await using var receiver = await StartAsync(options, _arrived);
        await using var transport = new RabbitMqTransport(options);

        var failure = await Record.ExceptionAsync(() => SendAsync(transport, 1, MaxFrameBytes - OverheadBytes + above));
        await SendAsync(transport, 2, 1);

        await AssertArrivedAsync(isAccepted ? [MaxFrameBytes - OverheadBytes + above, 1] : [1]);
        if (!isAccepted)
            Assert.Contains("does not fit MaxFrameBytes (4096)", Assert.IsType<BatchSendException>(failure).Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(-1, true)]
    [InlineData(0, true)]
    [InlineData(1, false)]
    public async Task A_message_has_up_to_the_bytes_that_a_frame_holds_and_a_larger_one_is_rejected_at_the_write(int above, bool isAccepted)
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync(), options => options.MaxFrameBytes = MaxFrameBytes);
        await using var path = await RabbitMqPath.StartAsync(options, options, static output => output.MaxBatchBytes = 2048);
        var payload = new byte[path.Transport.MaxMessageBytes + above];

        var failure = Record.Exception(() => path.Output.Write(Some.Connection(Node), payload));
        path.Output.Write(Some.Connection(Node), "x"u8);

        await path.Arrived.WaitForMessagesAsync(isAccepted ? 2 : 1);
        Assert.Equal(isAccepted ? [payload.Length, 1] : [1], path.Arrived.Messages.Select(static message => message.Payload.Length));
        Assert.Equal(isAccepted, failure is null);
        if (!isAccepted)
            Assert.Contains($"{path.Transport.MaxMessageBytes}", Assert.IsType<OutputOverflowException>(failure).Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Bodies_around_the_largest_frame_of_AMQP_arrive_whole()
    {
        // The broker's frame_max, less the 8 bytes around a body (AMQP 0-9-1, section 4.2.3).
        const int bodyOfOneFrame = 131_072 - 8;
        var options = RabbitMqSome.Options(await fixture.GetAsync());
        await using var receiver = await StartAsync(options, _arrived);
        await using var transport = new RabbitMqTransport(options);
        var overhead = RabbitMqEnds.FrameOverheadBytes(131_000);
        int[] sizes = [.. from frames in (int[])[1, 2] from above in (int[])[-1, 0, 1] select (frames * bodyOfOneFrame) - overhead + above];

        for (var index = 0; index < sizes.Length; index++)
            await SendAsync(transport, index + 1, sizes[index]);

        await AssertArrivedAsync(sizes);
    }

    [Fact]
    [Trait("Lane", "night: messages of many megabytes")]
    public async Task The_brokers_max_message_size_is_the_largest_frame_that_it_takes()
    {
        const int maxMessageBytes = 32 * 1024;
        var server = await own.GetAsync();
        await server.SetMaxMessageBytesAsync(maxMessageBytes);
        var options = RabbitMqSome.Options(server);
        await using var receiver = await StartAsync(options, _arrived);
        await using var transport = new RabbitMqTransport(options);
        var overhead = RabbitMqEnds.FrameOverheadBytes(maxMessageBytes);

        await SendAsync(transport, 1, maxMessageBytes - overhead - 1);
        await SendAsync(transport, 2, maxMessageBytes - overhead);
        var failure = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(transport, 3, maxMessageBytes - overhead + 1));
        await SendAsync(transport, 4, 1);

        await AssertArrivedAsync([maxMessageBytes - overhead - 1, maxMessageBytes - overhead, 1]);
        Assert.Contains($"max size {maxMessageBytes}", failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_scope_of_3_MiB_is_one_message_and_fewer_fit_where_the_broker_takes_less()
    {
        var server = await own.GetAsync();
        await server.SetMaxMessageBytesAsync(16 * 1024 * 1024);
        var options = RabbitMqSome.Options(server);
        await using var probe = await RabbitMqProbe.ConnectAsync(server);
        var queue = await probe.ListenAsync(options, "1");

        var whole = await TakeScopesAsync(options, probe, queue, scopes: 1);
        await server.SetMaxMessageBytesAsync(1024 * 1024);
        var learnt = await TakeScopesAsync(options, probe, queue, scopes: 2);

        Assert.Equal((1, 4), (whole.Count, learnt.Count));
        Assert.Equal([3000, 3000], new[] { whole, learnt }.Select(static frames => frames.Sum(static frame => frame.Texts.Count)));
    }

    [Theory]
    [InlineData(99)]
    [InlineData(100)]
    [InlineData(101)]
    [InlineData(255)]
    [InlineData(256)]
    [InlineData(OutputHandle.MaxNameBytes)]
    public async Task Groups_with_long_names_reach_their_members(int bytes)
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync(), MemberNode.KnowsAtOnce);
        await using var scene = await MemberScene.StartAsync(options, nodes: 2);
        var group = OutputHandle.Named(new string('x', bytes));
        var member = scene.Nodes[1].Connect();
        scene.Output.Write(member.Handle, ControlMessage.JoinGroup(group.Name!));
        await scene.Output.FlushAsync().WithinDeadline();
        await scene.Nodes[1].WhenBoundAsync();

        scene.Write(group, "line 0");
        scene.Write(group, "line 1");

        await member.AssertLinesAsync("line 0", "line 1");
    }

    [Theory]
    [InlineData("x", 100)]
    [InlineData("€", 66)]
    public async Task With_the_longest_prefix_frames_arrive_on_the_last_node_and_groups_are_bound(string character, int count)
    {
        var prefix = string.Concat(Enumerable.Repeat(character, count));
        var options = RabbitMqSome.Options(await fixture.GetAsync(), options => (options.Prefix, options.Prefetch, options.QueueExpiry) = (prefix[..^8] + Guid.NewGuid().ToString("n")[..8], ushort.MaxValue, TimeSpan.FromDays(10)));
        MemberNode.KnowsAtOnce(options);
        await using var node = await MemberNode.StartAsync(options, OutputHandle.MaxNode);
        await node.WhenBoundAsync();
        await using var transport = new RabbitMqTransport(options);
        var member = node.Connect();

        await transport.SendAsync(new[] { Some.Batch(member.Handle, _producer, 1, "line 0\n") }, CancellationToken.None);

        await member.AssertLinesAsync("line 0");
        Assert.Null(node.Receiver.Fault);
    }

    [Fact]
    public void A_prefix_whose_names_would_be_too_long_for_the_broker_stops_the_start()
    {
        var options = new RabbitMqOptions { Prefix = new string('€', 67) };

        var failure = Assert.Throws<OptionsValidationException>(() => new RabbitMqTransport(options));

        Assert.Contains("RabbitMqOptions.Prefix has 201 UTF-8 bytes, more than 200", failure.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(254, true)]
    [InlineData(255, true)]
    [InlineData(256, false)]
    public async Task A_dead_letter_exchange_has_a_name_that_the_broker_takes(int bytes, bool isAccepted)
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server, options => options.DeadLetterExchange = Some.Name(new string('d', bytes - 33)));
        if (!isAccepted)
        {
            var failure = Assert.Throws<OptionsValidationException>(() => new RabbitMqTransport(options));
            Assert.Contains("RabbitMqOptions.DeadLetterExchange has 256 UTF-8 bytes, more than 255", failure.Message, StringComparison.Ordinal);
            return;
        }

        await using var probe = await RabbitMqProbe.ConnectAsync(server);
        var dead = await probe.ListenForDeadLettersAsync(options);
        await using var receiver = await StartAsync(options, _arrived);

        await probe.PublishAsync(options, "1", RabbitMqSome.FrameOfNextVersion());

        await probe.WaitForCountAsync(dead, 1);
    }

    private Task SendAsync(RabbitMqTransport transport, int number, int bytes) =>
        transport.SendAsync(new[] { Some.Batch(OutputHandle.Connection(Node, 1), _producer, number, new string('x', bytes)) }, CancellationToken.None).AsTask().WithinDeadline();

    /// <summary>Writes scopes of 3 MiB over a new connection; returns the frames of the last.</summary>
    private static async Task<IReadOnlyList<CollectedFrame>> TakeScopesAsync(RabbitMqOptions options, RabbitMqProbe probe, string queue, int scopes)
    {
        await using var transport = new RabbitMqTransport(options);
        await using var output = new OutputBuffer(transport);
        var (player, line) = (Some.Connection(Node), new string('x', 1044));
        IReadOnlyList<CollectedFrame> frames = [];
        for (var scope = 0; scope < scopes; scope++)
        {
            await using (output.BeginBufferingScope(player))
            {
                for (var written = 0; written < 3000; written++)
                    output.Write(player, Some.Bytes(line));
            }

            frames = await probe.TakeFramesAsync(queue);
        }

        return frames;
    }

    private async Task AssertArrivedAsync(int[] sizes)
    {
        await _arrived.WaitForMessagesAsync(sizes.Length);
        Assert.Equal(sizes, _arrived.Messages.Select(static message => message.Payload.Length));
    }
}
