using System.Net.Sockets;
using BatchKit.Broadcast.Tests.Support;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Connections.Features;

namespace BatchKit.Broadcast.Tests.WebSockets;

/// <summary>The fifth guard: a connection that ends takes nothing with it, and nothing is written to what the server has taken back.</summary>
public sealed class EndingTests
{
    private static readonly string Message = new('x', 8000);

    [Theory]
    [InlineData("leaves", true)]
    [InlineData("leaves", false)]
    [InlineData("ends its sending side", true)]
    public async Task A_client_that_is_gone_or_only_ends_its_sending_side_counts_what_waited_for_it_and_leaves_nothing(string what, bool isDirect)
    {
        await using var host = await StartAsync(isDirect);
        using var client = await RawClient.ConnectAsync(host, isDirect);
        var handler = await host.HandlerAsync();
        while (handler.Connection.Output.Waiting.Messages < 100)
        {
            host.Output.Write(handler.Connection.Handle, Message);
            await host.Output.FlushAsync().WithinDeadline();
        }

        if (what == "leaves")
            client.Dispose();
        else
            client.Socket.Shutdown(SocketShutdown.Send);

        Assert.Equal(DisconnectReason.ConnectionLost, await handler.Ended.WithinDeadline());
        await host.EveryoneGoneAsync();
        var counted = host.Transport.GetStatistics();
        Assert.True(counted.FailedMessages > 0 || !isDirect);
        Assert.Equal((0, 0), (counted.PendingMessages, counted.Connections));
        counted.AssertAddsUp();
    }

    [Theory]
    [InlineData(null)]
    [InlineData(4096)]
    public async Task A_client_whose_socket_is_gone_before_its_upgrade_is_no_error_of_the_application(int? sendBufferBytes)
    {
        var failed = new TaskCompletionSource<Exception?>();
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup
        {
            Options = new BroadcastOptions { SendBufferBytes = sendBufferBytes },
            Before = application => application.Use(async (context, next) =>
            {
                context.Features.Get<IConnectionSocketFeature>()!.Socket.Dispose();
                failed.SetResult(await Record.ExceptionAsync(() => next(context)));
            }),
        });
        using var client = await RawClient.OpenAsync(host.EndPoint);

        await client.SendAsync(RawClient.RequestFor("/ws", "localhost"));

        Assert.Null(await failed.Task.WithinDeadline());
        await host.Log.NextAsync("left while its connection began").WithinDeadline();
        await host.EveryoneGoneAsync();
    }

    [Fact]
    public async Task Writing_while_clients_come_and_go_throws_nothing_and_adds_up()
    {
        await using var host = await StartAsync(isDirect: true, (connection, output) => new JoiningHandler(connection, output));
        using var stop = new CancellationTokenSource();
        var broadcasting = Task.Run(async () =>
        {
            while (!stop.IsCancellationRequested)
                await host.Transport.SendAsync(Deliveries.ToGroup("all", "one", "two")).WithinDeadline();
        });

        await Parallel.ForEachAsync(Enumerable.Range(0, 400), new ParallelOptions { MaxDegreeOfParallelism = 8 }, async (number, _) =>
        {
            using var client = await RawClient.ConnectAndAnswerAsync(host.EndPoint);
            await client.ReadTextAsync();
            if (number % 2 == 0)
                await client.SendAsync(RawFrame.MaskedClose(1000));
        });
        await stop.CancelAsync();
        await broadcasting.WithinDeadline();
        await host.EveryoneGoneAsync();

        var counted = host.Transport.GetStatistics();
        Assert.Equal((0, 0, 0), (counted.Connections, counted.Groups, counted.PendingMessages));
        counted.AssertAddsUp();
    }

    [Fact]
    public async Task What_is_done_to_a_connection_after_its_end_does_nothing()
    {
        await using var host = await StartAsync(isDirect: true);
        var client = await RawClient.ConnectAsync(host, isDirect: true);
        var handler = await host.HandlerAsync();
        client.Dispose();
        await handler.Ended.WithinDeadline();
        await host.EveryoneGoneAsync();
        using var other = await RawClient.ConnectAsync(host, isDirect: true);

        handler.Connection.Abort();
        handler.Connection.Close();
        handler.Connection.SendControl("x"u8);

        await other.SendTextAsync("still here");
        Assert.Equal("still here", await other.ReadTextAsync());
    }

    [Fact]
    public async Task At_stop_what_waits_and_the_goodbye_arrive_before_the_close_frame()
    {
        await using var host = await StartAsync(isDirect: true, goodbye: "bye");
        using var client = await RawClient.ConnectAsync(host, isDirect: true);
        var handler = await host.HandlerAsync();
        for (var message = 0; message < 500; message++)
            host.Output.Write(handler.Connection.Handle, $"{message}:{Message}");

        // The drain is for what is queued in the transport; the buffer sends the rest first.
        await host.Output.FlushAsync().WithinDeadline();
        var draining = host.Transport.DrainAsync(CancellationToken.None);
        for (var message = 0; message < 500; message++)
            Assert.Equal($"{message}:{Message}", await client.ReadTextAsync());

        Assert.Equal("bye", await client.ReadTextAsync());
        Assert.Equal(1001, await client.ReadCloseAsync());
        await draining.WithinDeadline();
        await client.SendAsync(RawFrame.MaskedClose(1001));
        Assert.Null(await client.TryReadFrameAsync());
        Assert.Equal(DisconnectReason.Stopped, await handler.Ended.WithinDeadline());
    }

    private static Task<WebSocketHost> StartAsync(
        bool isDirect, Func<ClientConnection, IOutputBuffer, EchoHandler>? handlers = null, string? goodbye = null) =>
        WebSocketHost.StartAsync(new WebSocketHostSetup
        {
            Options = new BroadcastOptions { MaxQueuedBytes = 64 * 1024 * 1024, MaxQueuedMessages = 10_000_000, GoodbyeMessage = goodbye },
            Endpoint = { WritesDirectly = isDirect },
            Handlers = handlers ?? ((connection, output) => new EchoHandler(connection, output)),
        });

    private sealed class JoiningHandler(ClientConnection connection, IOutputBuffer output) : EchoHandler(connection, output)
    {
        public override ValueTask StartAsync(CancellationToken cancellationToken)
        {
            Output.Write(Connection.Handle, ControlMessage.JoinGroup("all").ToPayload(), MessageHeader.Control);
            return default;
        }
    }
}
