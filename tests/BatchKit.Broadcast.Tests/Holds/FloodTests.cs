using BatchKit.Broadcast.Tests.Clients;
using BatchKit.Broadcast.Tests.WebSockets;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Holds;

/// <summary>Clients that send faster than they may.</summary>
[Collection(HoldCollection.Name)]
public sealed class FloodTests
{
    private static readonly byte[] Line = "12 bytes...\n"u8.ToArray();

    [Theory]
    [InlineData(ClientProtocol.Telnet)]
    [InlineData(ClientProtocol.WebSocket)]
    public async Task What_a_flooder_sends_too_early_waits_in_its_own_socket_and_arrives_later(ClientProtocol protocol)
    {
        // More than the buffers of both kernels and of Kestrel hold.
        const int lines = 1_500_000;
        var clock = new ManualTimeProvider();
        var counter = new CountingHandler();
        var options = new BroadcastOptions { TextInputLimits = new InputLimits { RecordsPerSecond = 100, RecordBurst = 500 }, KeepAliveInterval = null };
        await using var server = await HoldServer.StartAsync(options, clock, handlers: (_, _) => counter);
        using var flooder = await DeafClient.ConnectAsync(protocol, server.EndPointFor(protocol));
        var one = protocol == ClientProtocol.WebSocket ? RawFrame.Masked(RawFrame.Final | RawFrame.Text, Line) : Line;

        var sending = flooder.SendAsync(Enumerable.Repeat(one, lines).SelectMany(line => line).ToArray(), CancellationToken.None);
        await Until.TrueAsync(() => counter.Records == 500);

        // The kernel's buffers are full, and the flooder waits.
        Assert.False(sending.IsCompleted);
        await clock.WaitForTimersAsync(2);
        clock.Advance(TimeSpan.FromSeconds(2));
        await Until.TrueAsync(() => counter.Records >= 600);
        Assert.InRange(counter.Records, 600, 700);
        Assert.Equal(1, server.Transport.Connections.Count);

        // What becomes of the rest is looked at, or it is an unobserved exception of the test that runs next.
        flooder.Dispose();
        await Record.ExceptionAsync(() => sending);
    }

    [Fact]
    public async Task Binary_protocols_have_no_limit_unless_one_is_set()
    {
        const int lines = 20_000;
        var counter = new CountingHandler();
        await using var server = await HoldServer.StartAsync(clock: new ManualTimeProvider(), handlers: (_, _) => counter);
        using var client = await DeafClient.ConnectAsync(ClientProtocol.Tcp, server.EndPointFor(ClientProtocol.Tcp));

        await client.SendAsync(Enumerable.Repeat(Line, lines).SelectMany(line => line).ToArray(), CancellationToken.None).WithinDeadline();

        await Until.TrueAsync(() => counter.Records == lines);
    }

    [Fact]
    public async Task A_flooder_that_is_closed_leaves_at_once()
    {
        var counter = new CountingHandler();
        await using var server = await HoldServer.StartAsync(new BroadcastOptions { TextInputLimits = new InputLimits { RecordsPerSecond = 1, RecordBurst = 5 } }, handlers: (_, _) => counter);
        using var flooder = await DeafClient.ConnectAsync(ClientProtocol.Telnet, server.EndPointFor(ClientProtocol.Telnet));
        await flooder.SendAsync(Enumerable.Repeat(Line, 1000).SelectMany(line => line).ToArray(), CancellationToken.None).WithinDeadline();
        await Until.TrueAsync(() => counter.Records == 5);

        Assert.Single(server.Transport.Connections.All).Abort();

        await Until.TrueAsync(() => server.Transport.Connections.Places == 0);
    }

    private sealed class CountingHandler : IConnectionHandler
    {
        private int _records;

        public int Records => Volatile.Read(ref _records);

        public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
        {
            Interlocked.Add(ref _records, records.Length);
            return default;
        }
    }
}
