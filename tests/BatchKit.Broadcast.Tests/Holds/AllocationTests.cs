using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Telnet;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Broadcast.Tests.Telnet;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Broadcast.Tests.Holds;

[Collection(HoldCollection.Name)]
public sealed class AllocationTests(ITestOutputHelper report)
{
    private const long MaxBytesPerBroadcast = 4096;
    private const int Broadcasts = 100;

    [Theory]
    [InlineData(10)]
    [InlineData(64)]
    [InlineData(1000)]
    [InlineData(10_000)]
    public async Task A_broadcast_allocates_at_most_4_KB_whatever_the_number_of_subscribers(int subscribers)
    {
        await using var transport = new BroadcastTransport();
        var wire = new CountingWire();
        for (var subscriber = 0; subscriber < subscribers; subscriber++)
            transport.Groups.Join(Connect(transport, wire, subscriber % 3), "hall");
        MessageBatch[] batches = [Deliveries.ToGroup("hall", new string('x', 200))];
        for (var broadcast = 0; broadcast < Broadcasts; broadcast++)
            await transport.SendAsync(batches, CancellationToken.None);

        var least = long.MaxValue;
        for (var round = 0; round < 5; round++)
        {
            var before = GC.GetTotalAllocatedBytes(precise: true);
            for (var broadcast = 0; broadcast < Broadcasts; broadcast++)
                await transport.SendAsync(batches, CancellationToken.None);
            least = Math.Min(least, (GC.GetTotalAllocatedBytes(precise: true) - before) / Broadcasts);
        }

        report.WriteLine($"{subscribers} subscribers: {least} B a broadcast.");
        Assert.Equal(6L * Broadcasts * subscribers, wire.Writes);
        Assert.InRange(least, 0, MaxBytesPerBroadcast);
    }

    [Fact]
    public void A_broadcast_to_few_allocates_the_shared_buffers_only()
    {
        var transport = new BroadcastTransport(timeProvider: new ManualTimeProvider());
        var wire = new CountingWire();
        for (var subscriber = 0; subscriber < 60; subscriber++)
            transport.Groups.Join(Connect(transport, wire, kind: 1), "hall");
        MessageBatch[] batches = [Deliveries.ToGroup("hall", Some.Lines(10))];
        for (var broadcast = 0; broadcast < Broadcasts; broadcast++)
            Assert.True(transport.SendAsync(batches, CancellationToken.None).IsCompletedSuccessfully);

        var before = GC.GetAllocatedBytesForCurrentThread();
        for (var broadcast = 0; broadcast < Broadcasts; broadcast++)
            _ = transport.SendAsync(batches, CancellationToken.None).IsCompletedSuccessfully;
        var allocated = (GC.GetAllocatedBytesForCurrentThread() - before) / Broadcasts;

        report.WriteLine($"{allocated} B a broadcast.");
        Assert.InRange(allocated, 0, 100);
    }

    private static ClientConnection Connect(BroadcastTransport transport, CountingWire wire, int kind)
    {
        var (protocol, format) = kind switch
        {
            0 => (ClientProtocol.Tcp, WireFormat.Raw),
            1 => (ClientProtocol.WebSocket, WireFormat.WebSocketText),
            _ => (ClientProtocol.Telnet, WireFormat.Telnet(TelnetCharset.Utf8, PromptEnding.GoAhead, takesGmcp: false)),
        };
        var output = new SendQueue(wire, transport.Limits, transport.Counters, TimeProvider.System);
        return new ClientConnection(
            transport.Connections.NextHandle(), protocol, new ConnectionOrigin(RemoteEndPoint: null, IsSecure: false), output, format, TimeProvider.System);
    }
}
