using System.Buffers.Binary;
using System.Text;

namespace BatchKit.Broadcast.Tests.WebSockets;

/// <summary>The third guard: all bytes to a client go through one lock, whoever writes them.</summary>
public sealed class OneLockTests
{
    [Fact]
    public async Task Pongs_never_come_within_a_message_that_the_socket_took_in_part()
    {
        const int pings = 100;
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup { Options = new BroadcastOptions { MaxQueuedBytes = 64 * 1024 * 1024 } });
        using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);
        var connection = (await host.HandlerAsync()).Connection;
        await host.Log.NextAsync("goes directly to its socket").WithinDeadline();
        var messages = 0;
        while (connection.Output.Waiting.Messages < 100)
        {
            host.Output.Write(connection.Handle, TextOf(messages++));
            await host.Output.FlushAsync().WithinDeadline();
        }

        for (var ping = 0; ping < pings; ping++)
            await client.SendAsync(RawFrame.Masked(RawFrame.Final | RawFrame.Ping, BitConverter.GetBytes(ping)));

        // One pong waits at most, the last one.
        var (nextMessage, lastPong) = (0, -1);
        while (nextMessage < messages || lastPong < pings - 1)
        {
            var frame = await client.ReadFrameAsync();
            if (frame.Opcode == RawFrame.Pong)
                lastPong = AssertLater(lastPong, frame);
            else
                Assert.Equal(TextOf(nextMessage++), Encoding.UTF8.GetString(frame.Payload));
        }
    }

    [Fact]
    public async Task Messages_of_several_writers_and_pongs_arrive_each_in_order()
    {
        const int pings = 300;
        const int messages = 300;
        await using var host = await WebSocketHost.StartAsync();
        using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);
        var connection = (await host.HandlerAsync()).Connection;
        await host.Log.NextAsync("goes directly to its socket").WithinDeadline();

        var writers = Enumerable.Range(0, 2).Select(writer => Task.Run(() =>
        {
            for (var message = 0; message < messages; message++)
                host.Output.Write(connection.Handle, $"{writer}{TextOf(message)}");
        })).ToArray();
        var pinging = Task.Run(async () =>
        {
            for (var ping = 0; ping < pings; ping++)
                await client.SendAsync(RawFrame.Masked(RawFrame.Final | RawFrame.Ping, BitConverter.GetBytes(ping)));
        });

        int[] next = [0, 0];
        var lastPong = -1;
        while (lastPong < pings - 1 || next[0] < messages || next[1] < messages)
        {
            var frame = await client.ReadFrameAsync();
            var text = Encoding.UTF8.GetString(frame.Payload);
            if (frame.Opcode == RawFrame.Pong)
                lastPong = AssertLater(lastPong, frame);
            else
                Assert.Equal(TextOf(next[text[0] - '0']++), text[1..]);
        }

        await Task.WhenAll([.. writers, pinging]).WithinDeadline();
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Nothing_comes_behind_a_close_frame(bool isDirect)
    {
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup { Endpoint = { WritesDirectly = isDirect } });
        using var client = isDirect ? await RawClient.ConnectAndAnswerAsync(host.EndPoint) : await RawClient.ConnectAsync(host.EndPoint);
        var handler = await host.HandlerAsync();
        var writing = Task.Run(() =>
        {
            while (!handler.Ended.IsCompleted)
                _ = host.Output.TryWrite(handler.Connection.Handle, "more"u8);
        });
        await client.ReadTextAsync();

        handler.Connection.Close();
        await client.SendAsync(RawFrame.Masked(RawFrame.Final | RawFrame.Ping, "still there?"u8));
        RawFrame? frame;
        do
            frame = await client.ReadFrameAsync();
        while (frame.Opcode != RawFrame.Close);
        await client.SendAsync(RawFrame.MaskedClose(1000));

        Assert.Equal(1000, BinaryPrimitives.ReadUInt16BigEndian(frame.Payload));
        Assert.Null(await client.TryReadFrameAsync());
        Assert.Equal(DisconnectReason.Closed, await handler.Ended.WithinDeadline());
        await writing.WithinDeadline();
    }

    private static int AssertLater(int lastPong, RawFrame frame)
    {
        var pong = BitConverter.ToInt32(frame.Payload);
        Assert.InRange(pong, lastPong + 1, int.MaxValue);
        return pong;
    }

    private static string TextOf(int message) => $"{message}:{new string('x', 4000)}";
}
