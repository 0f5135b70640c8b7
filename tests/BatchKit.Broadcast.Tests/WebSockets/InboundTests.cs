using System.Text;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.WebSockets;

/// <summary>What a client sends, on its way to the handler.</summary>
public sealed class InboundTests
{
    private const int Final = RawFrame.Final;

    [Fact]
    public async Task What_one_read_brought_is_delivered_together_and_answered_in_one_write()
    {
        await using var host = await WebSocketHost.StartAsync();
        using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);
        var handler = await host.HandlerAsync();
        var frames = Enumerable.Range(0, 100).SelectMany(number => RawFrame.Masked(Final | RawFrame.Text, Encoding.UTF8.GetBytes($"message {number}")));

        await client.SendAsync(frames.ToArray());

        for (var number = 0; number < 100; number++)
            Assert.Equal($"message {number}", await client.ReadTextAsync());
        Assert.InRange(handler.Calls.Count, 1, 3);
    }

    [Fact]
    public async Task A_text_is_data_and_a_binary_message_is_binary()
    {
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup { Endpoint = { AcceptsBinary = true } });
        using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);
        var handler = await host.HandlerAsync();

        await client.SendAsync(RawFrame.Masked(Final | RawFrame.Text, "text"u8));
        await client.SendAsync(RawFrame.Masked(Final | RawFrame.Binary, [0xFF, 0x00]));
        await client.SendAsync(RawFrame.Masked(Final | RawFrame.Text, []));
        for (var answer = 0; answer < 3; answer++)
            await client.ReadTextAsync();

        var records = handler.Calls.SelectMany(call => call).ToArray();
        Assert.Equal([RecordKind.Data, RecordKind.Binary, RecordKind.Data], records.Select(record => record.Kind));
        Assert.Equal([4, 2, 0], records.Select(record => record.Payload.Length));
    }

    [Theory]
    [InlineData(false, null, false)]
    [InlineData(false, true, true)]
    [InlineData(true, null, true)]
    [InlineData(true, false, false)]
    public async Task An_endpoint_for_text_refuses_a_binary_message_with_1003_unless_it_was_asked_to_accept_it(bool sendsBinary, bool? acceptsBinary, bool isAccepted)
    {
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup { Endpoint = { SendsBinary = sendsBinary, AcceptsBinary = acceptsBinary } });
        using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);
        var handler = await host.HandlerAsync();

        // The first fragment is enough: nothing of such a message is kept.
        await client.SendAsync(RawFrame.Masked(Final | RawFrame.Text, "text"u8));
        await client.ReadMessageAsync();
        await client.SendAsync(RawFrame.Masked(isAccepted ? Final | RawFrame.Binary : RawFrame.Binary, "bytes"u8));

        if (isAccepted)
            Assert.Equal("bytes", Encoding.UTF8.GetString((await client.ReadMessageAsync()).Payload));
        else
            Assert.Equal(1003, await client.ReadCloseAsync());
        Assert.Equal(isAccepted ? 2 : 1, handler.Calls.Sum(call => call.Length));
    }

    [Fact]
    public async Task Output_is_binary_when_the_options_say_so()
    {
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup { Endpoint = { SendsBinary = true } });
        using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);
        byte[] payload = [0xFF, 0xC0, 0x00];

        await client.SendAsync(RawFrame.Masked(Final | RawFrame.Binary, payload));
        var answer = await client.ReadMessageAsync();

        Assert.Equal(RawFrame.Final | RawFrame.Binary, answer.FirstByte);
        Assert.Equal(payload, answer.Payload);
    }

    [Fact]
    public async Task Text_that_is_no_UTF_8_is_made_valid()
    {
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup { Endpoint = { AcceptsBinary = true } });
        using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);

        await client.SendAsync(RawFrame.Masked(Final | RawFrame.Binary, [.. "caf"u8, 0xE9, .. " ok"u8]));

        Assert.Equal("caf? ok", await client.ReadTextAsync());
    }

    [Theory]
    [InlineData(1000, true)]
    [InlineData(1001, false)]
    public async Task A_message_above_the_limit_closes_with_1009(int bytes, bool isInLimit)
    {
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup { Options = new BroadcastOptions { MaxRecordBytes = 1000 } });
        using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);
        var handler = await host.HandlerAsync();

        await client.SendTextAsync(new string('x', bytes));

        if (isInLimit)
        {
            Assert.Equal(bytes, (await client.ReadTextAsync()).Length);
            return;
        }

        Assert.Equal(1009, await client.ReadCloseAsync());
        Assert.Null(await client.TryReadFrameAsync());
        client.Dispose();
        Assert.Equal(DisconnectReason.ProtocolError, await handler.Ended.WithinDeadline());
        Assert.Empty(handler.Calls);
    }

    [Fact]
    public async Task Fragments_that_grow_above_the_limit_close_with_1009()
    {
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup { Options = new BroadcastOptions { MaxRecordBytes = 1000 } });
        using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);

        await client.SendAsync(RawFrame.Masked(RawFrame.Text, new byte[400]));
        await client.SendAsync(RawFrame.Masked(RawFrame.Continuation, new byte[400]));
        await client.SendAsync(RawFrame.Masked(RawFrame.Continuation, new byte[400]));

        Assert.Equal(1009, await client.ReadCloseAsync());
    }

    [Fact]
    public async Task A_client_that_is_not_authenticated_may_send_only_so_much()
    {
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup { Options = new BroadcastOptions { MaxUnauthenticatedBytes = 1000 } });
        using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);
        var handler = await host.HandlerAsync();

        for (var ping = 0; ping < 10; ping++)
            await client.SendAsync(RawFrame.Masked(Final | RawFrame.Ping, new byte[120]));

        Assert.Equal(1008, await client.ReadCloseAsync());
        await client.SendAsync(RawFrame.MaskedClose(1008));
        Assert.Equal(DisconnectReason.NotAuthenticated, await handler.Ended.WithinDeadline());
    }

    [Fact]
    public async Task A_silent_client_gets_a_ping()
    {
        var clock = new ManualTimeProvider();
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup { TimeProvider = clock });
        using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);
        await host.Log.NextAsync("goes directly to its socket").WithinDeadline();

        clock.Advance(TimeSpan.FromSeconds(61));

        Assert.Equal(RawFrame.Ping, (await client.ReadFrameAsync()).Opcode);
    }
}
