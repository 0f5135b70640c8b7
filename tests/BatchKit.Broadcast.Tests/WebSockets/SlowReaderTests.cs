using BatchKit.Broadcast.Tests.Support;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.WebSockets;

/// <summary>The fourth guard: a client that does not read makes nobody wait, and costs no more than its bound.</summary>
public sealed class SlowReaderTests
{
    private static readonly string Message = new('x', 8000);

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task What_the_socket_does_not_take_waits_and_arrives_in_order(bool isDirect)
    {
        const int messages = 1000;
        await using var host = await StartAsync(isDirect, new BroadcastOptions { MaxQueuedBytes = 16 * 1024 * 1024 });
        using var client = await RawClient.ConnectAsync(host, isDirect);
        var handler = await host.HandlerAsync();

        for (var message = 0; message < messages; message++)
            host.Output.Write(handler.Connection.Handle, $"{message}:{Message}");
        await host.Output.FlushAsync().WithinDeadline();
        Assert.True(host.Transport.GetStatistics().PendingMessages > 0);

        for (var message = 0; message < messages; message++)
            Assert.Equal($"{message}:{Message}", await client.ReadTextAsync());
        host.Transport.GetStatistics().AssertAddsUp();
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_client_whose_queue_overflows_is_disconnected_and_what_waited_is_counted(bool isDirect)
    {
        await using var host = await StartAsync(isDirect, new BroadcastOptions { MaxQueuedBytes = 64 * 1024 });
        using var client = await RawClient.ConnectAsync(host, isDirect);
        var handler = await host.HandlerAsync();

        while (!handler.Ended.IsCompleted)
        {
            _ = host.Output.TryWrite(handler.Connection.Handle, Message);
            Assert.InRange(handler.Connection.Output.HeldBytes, 0, 128 * 1024);
            await Task.Yield();
        }

        Assert.Equal(DisconnectReason.SlowConsumer, await handler.Ended);
        await Until.TrueAsync(() => host.Output.GetStatistics().PendingMessages == 0);
        var counted = host.Transport.GetStatistics();
        Assert.True(counted.DroppedSlowConsumerMessages > 0);
        Assert.Equal(0, counted.PendingMessages);
        counted.AssertAddsUp();
    }

    [Fact]
    public async Task A_client_that_takes_nothing_for_too_long_is_disconnected()
    {
        var clock = new ManualTimeProvider();
        await using var host = await StartAsync(isDirect: true, new BroadcastOptions { KeepAliveInterval = null }, clock);
        using var client = await RawClient.ConnectAsync(host, isDirect: true);
        var handler = await host.HandlerAsync();
        while (handler.Connection.Output.Waiting.Messages == 0)
        {
            host.Output.Write(handler.Connection.Handle, Message);
            await host.Output.FlushAsync().WithinDeadline();
        }

        await handler.Ended.WhileAdvancing(() => clock.Advance(TimeSpan.FromSeconds(1)));

        Assert.Equal(DisconnectReason.SlowConsumer, await handler.Ended);
        host.Transport.GetStatistics().AssertAddsUp();
    }

    private static Task<WebSocketHost> StartAsync(bool isDirect, BroadcastOptions options, TimeProvider? clock = null) =>
        WebSocketHost.StartAsync(new WebSocketHostSetup { Options = options, TimeProvider = clock ?? new ManualTimeProvider(), Endpoint = { WritesDirectly = isDirect } });
}
