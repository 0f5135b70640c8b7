using System.Text;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.WebSockets;

/// <summary>What a server owes its clients by RFC 6455, in cases after the model of Autobahn's suite.</summary>
public sealed class ProtocolTests
{
    private const int Final = RawFrame.Final;

    public static TheoryData<string, int, byte[]> Violations => new()
    {
        { "an unmasked text (5.1)", 1002, RawFrame.Unmasked(Final | RawFrame.Text, "unmasked"u8) },
        { "an unmasked ping (5.1)", 1002, RawFrame.Unmasked(Final | RawFrame.Ping, "unmasked"u8) },
        { "unmasked empty frames (5.1)", 1002, [Final | RawFrame.Text, 0, Final | RawFrame.Text, 0, Final | RawFrame.Text, 0] },
        { "reserved bit 1 (5.2)", 1002, RawFrame.Masked(Final | 0x40 | RawFrame.Text, "x"u8) },
        { "reserved bit 2 (5.2)", 1002, RawFrame.Masked(Final | 0x20 | RawFrame.Text, "x"u8) },
        { "reserved bit 3 (5.2)", 1002, RawFrame.Masked(Final | 0x10 | RawFrame.Text, "x"u8) },
        { "all reserved bits on a ping (5.2)", 1002, RawFrame.Masked(Final | 0x70 | RawFrame.Ping, "x"u8) },
        { "reserved opcode 3 (5.2)", 1002, RawFrame.Masked(Final | 0x3, "x"u8) },
        { "reserved opcode 7 (5.2)", 1002, RawFrame.Masked(Final | 0x7, []) },
        { "reserved opcode 11 (5.2)", 1002, RawFrame.Masked(Final | 0xB, "x"u8) },
        { "reserved opcode 15 (5.2)", 1002, RawFrame.Masked(Final | 0xF, []) },
        { "a ping in fragments (5.5)", 1002, RawFrame.Masked(RawFrame.Ping, "x"u8) },
        { "a pong in fragments (5.5)", 1002, RawFrame.Masked(RawFrame.Pong, "x"u8) },
        { "a close in fragments (5.5)", 1002, RawFrame.Masked(RawFrame.Close, [3, 232]) },
        { "a ping of 126 bytes (5.5)", 1002, RawFrame.Masked(Final | RawFrame.Ping, new byte[126]) },
        { "a close of 126 bytes (5.5)", 1002, RawFrame.Masked(Final | RawFrame.Close, [3, 232, .. new byte[124]]) },
        { "a continuation of nothing (5.4)", 1002, RawFrame.Masked(Final | RawFrame.Continuation, "x"u8) },
        { "an unfinished continuation of nothing (5.4)", 1002, RawFrame.Masked(RawFrame.Continuation, "x"u8) },
        { "a text within a text (5.4)", 1002, [.. RawFrame.Masked(RawFrame.Text, "x"u8), .. RawFrame.Masked(Final | RawFrame.Text, "y"u8)] },
        { "a binary within a text (5.4)", 1002, [.. RawFrame.Masked(RawFrame.Text, "x"u8), .. RawFrame.Masked(Final | RawFrame.Binary, "y"u8)] },
        { "a negative length (5.2)", 1002, [Final | RawFrame.Binary, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4] },
        { "a text that is no UTF-8 (8.1)", 1007, RawFrame.Masked(Final | RawFrame.Text, [0xCE, 0xBA, 0xE1, 0xBD, 0xB9, 0xED, 0xA0, 0x80]) },
        { "a text that ends within a character (8.1)", 1007, RawFrame.Masked(Final | RawFrame.Text, [0xE2, 0x82]) },
        { "an overlong character (8.1)", 1007, RawFrame.Masked(Final | RawFrame.Text, [0xC0, 0xAF]) },
        { "a character above U+10FFFF (8.1)", 1007, RawFrame.Masked(Final | RawFrame.Text, [0xF4, 0x90, 0x80, 0x80]) },
        { "an invalid first fragment (8.1)", 1007, RawFrame.Masked(RawFrame.Text, [0xFF]) },
        {
            "invalid across fragments (8.1)", 1007,
            [.. RawFrame.Masked(RawFrame.Text, [0xE2]), .. RawFrame.Masked(Final | RawFrame.Continuation, [0x41])]
        },
        {
            "a character that an empty last fragment leaves unfinished (8.1)", 1007,
            [.. RawFrame.Masked(RawFrame.Text, [0x41, 0xE2]), .. RawFrame.Masked(Final | RawFrame.Continuation, [])]
        },
        { "a close with one byte (5.5.1)", 1002, RawFrame.Masked(Final | RawFrame.Close, [3]) },
        { "a close whose reason is no UTF-8 (5.5.1)", 1002, RawFrame.Masked(Final | RawFrame.Close, [3, 232, 0xFF]) },
    };

    public static TheoryData<int> ForbiddenCodes => [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535];

    public static TheoryData<int> Codes => [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999];

    [Theory]
    [MemberData(nameof(Violations))]
    public async Task A_violation_closes_the_connection_with_its_code(string violation, int code, byte[] bytes)
    {
        foreach (var answersFirst in new[] { true, false })
        {
            await using var host = await WebSocketHost.StartAsync();
            using var client = answersFirst ? await RawClient.ConnectAndAnswerAsync(host.EndPoint) : await RawClient.ConnectAsync(host.EndPoint);
            var handler = await host.HandlerAsync();

            await client.SendAsync(bytes);

            Assert.Equal((violation, code), (violation, await client.ReadCloseAsync()));
            if (answersFirst)
                Assert.Null(await client.TryReadFrameAsync());
            client.Dispose();
            Assert.Equal(DisconnectReason.ProtocolError, await handler.Ended.WithinDeadline());
        }
    }

    [Theory]
    [MemberData(nameof(Codes))]
    public async Task A_close_is_answered_with_its_own_code(int code)
    {
        await using var host = await WebSocketHost.StartAsync();
        using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);
        var handler = await host.HandlerAsync();

        await client.SendAsync(RawFrame.MaskedClose(code));

        Assert.Equal(code, await client.ReadCloseAsync());
        Assert.Null(await client.TryReadFrameAsync());
        Assert.Equal(DisconnectReason.ClientClosed, await handler.Ended.WithinDeadline());
    }

    [Theory]
    [MemberData(nameof(ForbiddenCodes))]
    public async Task A_close_with_a_code_that_nobody_may_send_is_an_error(int code)
    {
        await using var host = await WebSocketHost.StartAsync();
        using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);

        await client.SendAsync(RawFrame.MaskedClose(code));

        Assert.Equal(1002, await client.ReadCloseAsync());
    }

    [Fact]
    public async Task A_close_without_a_code_is_answered_as_a_normal_one()
    {
        await using var host = await WebSocketHost.StartAsync();
        using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);

        await client.SendAsync(RawFrame.Masked(Final | RawFrame.Close, []));

        Assert.Equal(1000, await client.ReadCloseAsync());
        Assert.Null(await client.TryReadFrameAsync());
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(124)]
    [InlineData(125)]
    public async Task A_ping_is_answered_with_its_own_payload(int bytes)
    {
        await using var host = await WebSocketHost.StartAsync();
        using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);
        var payload = new byte[bytes];
        new Random(bytes).NextBytes(payload);

        await client.SendAsync(RawFrame.Masked(Final | RawFrame.Ping, payload));
        var pong = await client.ReadMessageAsync();

        Assert.Equal(Final | RawFrame.Pong, pong.FirstByte);
        Assert.Equal(payload, pong.Payload);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(124)]
    [InlineData(125)]
    [InlineData(126)]
    [InlineData(127)]
    [InlineData(65534)]
    [InlineData(65535)]
    [InlineData(65536)]
    [InlineData(300_000)]
    public async Task A_message_of_any_length_comes_and_goes_whole_in_one_frame(int bytes)
    {
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup { Options = new BroadcastOptions { MaxRecordBytes = Math.Max(bytes, 1024), TextInputLimits = null } });
        using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);
        var text = new string('x', bytes);

        await client.SendTextAsync(text);

        Assert.Equal(text, await client.ReadTextAsync());
    }

    [Fact]
    public async Task Fragments_are_one_message_with_control_frames_between_them()
    {
        await using var host = await WebSocketHost.StartAsync();
        using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);
        var rune = Encoding.UTF8.GetBytes("€");

        await client.SendAsync(RawFrame.Masked(RawFrame.Text, [(byte)'a', rune[0]]));
        await client.SendAsync(RawFrame.Masked(Final | RawFrame.Ping, "between"u8));
        await client.SendAsync(RawFrame.Masked(RawFrame.Continuation, []));
        await client.SendAsync(RawFrame.Masked(RawFrame.Continuation, [rune[1]]));
        await client.SendAsync(RawFrame.Masked(Final | RawFrame.Continuation, [rune[2], (byte)'b']));

        Assert.Equal("between"u8.ToArray(), (await client.ReadMessageAsync()).Payload);
        Assert.Equal("a€b", await client.ReadTextAsync());
    }

    [Fact]
    public async Task A_message_that_comes_a_byte_at_a_time_is_one_message()
    {
        await using var host = await WebSocketHost.StartAsync();
        using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);

        foreach (var slow in RawFrame.Masked(Final | RawFrame.Text, "slow"u8))
            await client.SendAsync(new[] { slow });

        Assert.Equal("slow", await client.ReadTextAsync());
    }

    [Fact]
    public async Task A_frame_that_never_ends_holds_nothing_up_and_counts_as_silence()
    {
        var clock = new ManualTimeProvider();
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup
        {
            Options = new BroadcastOptions { IdleTimeout = TimeSpan.FromSeconds(20) },
            TimeProvider = clock,
        });
        using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);
        var handler = await host.HandlerAsync();
        await client.SendAsync(RawFrame.Masked(Final | RawFrame.Text, "never whole"u8).AsMemory(..^1));

        host.Output.Write(handler.Connection.Handle, "output");
        Assert.Equal("output", await client.ReadTextAsync());
        clock.Advance(TimeSpan.FromSeconds(21));

        Assert.Equal(1008, await client.ReadCloseAsync());
        await client.SendAsync(RawFrame.MaskedClose(1008));
        client.Dispose();
        Assert.Equal(DisconnectReason.Idle, await handler.Ended.WithinDeadline());
    }

    [Fact]
    public async Task Frames_behind_a_close_are_not_looked_at()
    {
        await using var host = await WebSocketHost.StartAsync();
        using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);
        var handler = await host.HandlerAsync();

        byte[] both = [.. RawFrame.MaskedClose(1000), .. RawFrame.Masked(Final | RawFrame.Text, "late"u8)];
        await client.SendAsync(both);

        Assert.Equal(1000, await client.ReadCloseAsync());
        Assert.Equal(DisconnectReason.ClientClosed, await handler.Ended.WithinDeadline());
        Assert.Empty(handler.Calls);
    }

    [Fact]
    public async Task A_handler_that_fails_closes_with_1011()
    {
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup { Handlers = (connection, output) => new FailingHandler(connection, output) });
        using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);
        var handler = await host.HandlerAsync();

        await client.SendTextAsync("x");

        Assert.Equal(1011, await client.ReadCloseAsync());
        await client.SendAsync(RawFrame.MaskedClose(1011));
        Assert.Equal(DisconnectReason.HandlerFailed, await handler.Ended.WithinDeadline());
    }

    private sealed class FailingHandler(ClientConnection connection, IOutputBuffer output) : EchoHandler(connection, output)
    {
        public override ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken) => throw new InvalidOperationException("On purpose.");
    }
}
