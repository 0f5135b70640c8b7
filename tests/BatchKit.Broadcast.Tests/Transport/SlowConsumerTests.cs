using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Tests.Holds;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Transport;

// One of them measures the process's memory, which tests beside it would use.
[Collection(HoldCollection.Name)]
public sealed class SlowConsumerTests
{
    private const int CapBytes = 4096;

    [Theory]
    [InlineData(SlowConsumerPolicy.DropOldest)]
    [InlineData(SlowConsumerPolicy.DropNewest)]
    [InlineData(SlowConsumerPolicy.Disconnect)]
    public async Task A_batch_larger_than_the_cap_is_held_and_dropped_in_parts(SlowConsumerPolicy policy)
    {
        await using var transport = new BroadcastTransport(new BroadcastOptions { MaxQueuedBytes = CapBytes, SlowConsumer = policy });
        var (slow, quick) = (new FakeClient(transport).Join("hall"), new FakeClient(transport).Join("hall"));
        slow.Wire.Limit(50);

        await transport.SendAsync(Deliveries.ToGroup("hall", Some.Lines(2000)));

        Assert.InRange(slow.Connection.Output.HeldBytes, 0, CapBytes);
        Assert.Equal(string.Concat(Some.Lines(2000)), quick.Text);
        transport.GetStatistics().AssertAddsUp();
        Assert.Equal(policy == SlowConsumerPolicy.Disconnect, slow.Connection.Closing.IsCompleted);
    }

    [Fact]
    public async Task No_more_messages_wait_than_may()
    {
        await using var transport = new BroadcastTransport(new BroadcastOptions { MaxQueuedMessages = 7, SlowConsumer = SlowConsumerPolicy.DropNewest });
        var slow = new FakeClient(transport).Join("hall", "guild");
        slow.Wire.Limit(0);

        await transport.SendAsync(Deliveries.ToGroup("hall", Some.Lines(10)));
        await transport.SendAsync(Deliveries.ToGroup("hall", Some.Lines(10)), Deliveries.ToGroup("guild", Some.Lines(3)));

        Assert.InRange(slow.Connection.Output.Waiting.Messages, 1, 7);
        transport.GetStatistics().AssertAddsUp();
    }

    [Theory]
    [InlineData(SlowConsumerPolicy.DropOldest)]
    [InlineData(SlowConsumerPolicy.DropNewest)]
    public async Task A_pong_for_a_client_with_a_full_queue_keeps_it_connected(SlowConsumerPolicy policy)
    {
        await using var transport = new BroadcastTransport(new BroadcastOptions { MaxQueuedBytes = CapBytes, SlowConsumer = policy });
        var slow = new FakeClient(transport, ClientProtocol.WebSocket, WireFormat.WebSocketBinary);
        slow.Wire.Limit(0);
        for (var index = 0; index < CapBytes; index++)
            await transport.SendAsync(Deliveries.To(slow.Handle, "x"));

        slow.Connection.SendControl([0x8A, 0]);

        Assert.False(slow.Connection.Closing.IsCompleted);
        Assert.InRange(slow.Connection.Output.HeldBytes, CapBytes / 2, CapBytes);
        transport.GetStatistics().AssertAddsUp();
    }

    [Fact]
    public async Task A_client_with_output_that_waits_gets_no_keep_alive()
    {
        var clock = new ManualTimeProvider();
        await using var transport = new BroadcastTransport(new BroadcastOptions { KeepAliveInterval = TimeSpan.FromSeconds(10) }, timeProvider: clock);
        var slow = new FakeClient(transport, ClientProtocol.WebSocket, WireFormat.WebSocketBinary, clock);
        slow.Wire.Limit(0);
        await transport.SendAsync(Deliveries.To(slow.Handle, "waits"));
        var held = slow.Connection.Output.HeldBytes;

        clock.Advance(TimeSpan.FromSeconds(20));

        Assert.Equal(held, slow.Connection.Output.HeldBytes);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task The_closing_bytes_keep_within_the_cap(bool isWebSocket)
    {
        await using var transport = new BroadcastTransport(new BroadcastOptions { MaxQueuedBytes = CapBytes, SlowConsumer = SlowConsumerPolicy.DropNewest });
        var slow = isWebSocket ? new FakeClient(transport, ClientProtocol.WebSocket, WireFormat.WebSocketBinary) : new FakeClient(transport);
        slow.Wire.Limit(0);
        for (var index = 0; index < 2 * CapBytes; index++)
            await transport.SendAsync(Deliveries.To(slow.Handle, "x"));

        slow.Connection.Close();

        Assert.InRange(slow.Connection.Output.HeldBytes, CapBytes / 2, CapBytes);
    }

    [Fact]
    public async Task Joining_and_leaving_costs_a_client_that_does_not_read_no_memory()
    {
        await using var transport = new BroadcastTransport(new BroadcastOptions { SlowConsumer = SlowConsumerPolicy.DropNewest });
        var slow = new FakeClient(transport);
        slow.Wire.Limit(0);
        await transport.SendAsync(Deliveries.To(slow.Handle, "waits"));
        var batch = Deliveries.To(slow.Handle, Deliveries.Control(ControlMessage.JoinGroup("hall")), Deliveries.Control(ControlMessage.LeaveGroup("hall")));
        const long Most = 2_000_000;
        var grown = long.MaxValue;

        // What the tests before it still take is not taken again; what is kept for each join would be.
        for (var attempt = 0; attempt < 3 && grown > Most; attempt++)
        {
            var before = GC.GetTotalMemory(forceFullCollection: true);
            for (var round = 0; round < 50_000; round++)
                await transport.SendAsync(batch);
            grown = GC.GetTotalMemory(forceFullCollection: true) - before;
        }

        Assert.InRange(grown, long.MinValue, Most);
    }
}
