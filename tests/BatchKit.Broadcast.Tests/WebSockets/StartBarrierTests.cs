using System.Text;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.WebSockets;

/// <summary>The second guard: nothing is written directly before the client has shown that the server's response has arrived.</summary>
public sealed class StartBarrierTests
{
    private const int Tries = 2000;
    private const int Connectors = 8;

    [Fact]
    public async Task The_response_always_comes_before_what_a_handler_writes_at_once()
    {
        await using var host = await WebSocketHost.StartAsync(Greeting("welcome"));

        await Parallel.ForEachAsync(Enumerable.Range(0, Tries), new ParallelOptions { MaxDegreeOfParallelism = Connectors }, async (_, _) =>
        {
            using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);
            Assert.StartsWith("HTTP/1.1 101 ", client.Head);
            Assert.Equal("welcome", await client.ReadTextAsync());
        });
    }

    [Fact]
    public async Task Bytes_that_are_no_pong_do_not_open_the_way()
    {
        var clock = new ManualTimeProvider();
        await using var host = await WebSocketHost.StartAsync(Greeting("welcome", clock));
        using var client = await RawClient.OpenAsync(host.EndPoint);
        byte[] request = [.. RawClient.RequestFor("/ws", "localhost"), .. RawFrame.Masked(RawFrame.Final | RawFrame.Text, Encoding.UTF8.GetBytes("eager"))];

        await client.SendAsync(request);
        await client.ReadHeadAsync();
        var ping = await client.ReadFrameAsync();
        await client.SendAsync(RawFrame.Masked(RawFrame.Final | RawFrame.Pong, ping.Payload));

        Assert.StartsWith("HTTP/1.1 101 ", client.Head);
        Assert.Equal(RawFrame.Ping, ping.Opcode);
        Assert.Equal("welcome", await client.ReadTextAsync());
        Assert.Equal("eager", await client.ReadTextAsync());
    }

    [Fact]
    public async Task A_client_that_sends_no_pong_gets_its_output_through_the_stream_after_a_while()
    {
        var clock = new ManualTimeProvider();
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup { TimeProvider = clock });
        using var client = await RawClient.ConnectAsync(host.EndPoint);
        var connection = (await host.HandlerAsync()).Connection;
        await host.Transport.SendAsync(Deliveries.To(connection.Handle, "held"));
        Assert.Equal(1, connection.Output.Waiting.Messages);

        clock.Advance(new BroadcastOptions().CloseTimeout / 2);

        Assert.Equal("held", await client.ReadTextAsync());
        await host.Log.NextAsync("through the server's stream: the client sent no pong in time").WithinDeadline();
    }

    [Fact]
    public async Task What_is_held_is_bounded()
    {
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup
        {
            Options = new BroadcastOptions { MaxQueuedBytes = 4096 },
            TimeProvider = new ManualTimeProvider(),
        });
        using var client = await RawClient.ConnectAsync(host.EndPoint);
        var handler = await host.HandlerAsync();

        // The first is held. The second does not fit beside it, so nothing may be sent after it: the connection leaves the table at its own time.
        for (var message = 0; message < 2; message++)
            await host.Transport.SendAsync(Deliveries.To(handler.Connection.Handle, new string('x', 1500)));

        Assert.Equal(DisconnectReason.SlowConsumer, await handler.Ended.WithinDeadline());
        Assert.Equal(2, host.Transport.GetStatistics().DroppedSlowConsumerMessages);
        host.Transport.GetStatistics().AssertAddsUp();
    }

    private static WebSocketHostSetup Greeting(string greeting, TimeProvider? clock = null) => new()
    {
        TimeProvider = clock ?? new ManualTimeProvider(),
        Handlers = (connection, output) => new GreetingHandler(connection, output, greeting),
    };

    private sealed class GreetingHandler(ClientConnection connection, IOutputBuffer output, string greeting) : EchoHandler(connection, output)
    {
        public override ValueTask StartAsync(CancellationToken cancellationToken)
        {
            Output.Write(Connection.Handle, greeting);
            return default;
        }
    }
}
