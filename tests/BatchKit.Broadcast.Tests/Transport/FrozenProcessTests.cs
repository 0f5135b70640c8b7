using System.Net;
using System.Net.Sockets;
using System.Text;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Broadcast.Tests.Tcp;
using BatchKit.Testing;
using BatchKit.TestServers.EdgeWorker;

namespace BatchKit.Broadcast.Tests.Transport;

/// <summary>A process that is frozen (SIGSTOP, a debugger, a machine that sleeps) keeps its clients: the limits count only the time in which it could have served them.</summary>
public sealed class FrozenProcessTests
{
    private static readonly TimeSpan Second = TimeSpan.FromSeconds(1);

    private readonly ManualTimeProvider _time = new();

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(5)]
    [InlineData(33)]
    [InlineData(120)]
    public async Task Who_reads_or_sends_stays_whenever_the_process_freezes_and_who_does_neither_is_ended_by_its_limit(int seconds)
    {
        var options = new BroadcastOptions { SlowConsumerTimeout = 4 * Second, IdleTimeout = 6 * Second, AuthenticationTimeout = 6 * Second };
        for (var phase = TimeSpan.Zero; phase < Second; phase += Second / 20)
        {
            await using var transport = new BroadcastTransport(options, timeProvider: _time);
            var (reader, sender, newcomer) = (Client(transport), Client(transport), Client(transport));
            reader.Connection.MarkAuthenticated();
            sender.Connection.MarkAuthenticated();
            _time.Advance(phase);
            await RoundAsync(transport, reader, sender, newcomer);
            _time.Advance(Second);

            // The reader's socket is full, and the sender's line and the newcomer's password wait unread while the process is frozen.
            reader.Wire.Limit(0);
            await transport.SendAsync(Deliveries.To(reader.Handle, "more"));
            _time.Freeze(seconds * Second);
            var ended = new[] { reader, sender, newcomer }.Count(static client => client.Connection.IsClosing);
            await RoundAsync(transport, reader, sender, newcomer);
            newcomer.Connection.MarkAuthenticated();
            _time.Advance(3 * Second);
            ended += new[] { reader, sender, newcomer }.Count(static client => client.Connection.IsClosing);
            Assert.Equal((seconds, phase, 0), (seconds, phase, ended));

            reader.Wire.Limit(0);
            await transport.SendAsync(Deliveries.To(reader.Handle, "unread"));
            newcomer.Connection.Activity.NoteRecord();
            reader.Connection.Activity.NoteRecord();
            _time.Advance(5.2 * Second);
            Assert.Equal(DisconnectReason.SlowConsumer, await reader.Connection.Closing.WithinDeadline());
            Assert.Equal(DisconnectReason.Idle, await sender.Connection.Closing.WithinDeadline());
            Assert.False(newcomer.Connection.IsClosing);
        }
    }

    [Fact]
    public async Task The_least_limit_ends_who_does_not_read_also_where_timers_are_coarse()
    {
        await using var transport = new BroadcastTransport(new BroadcastOptions { SlowConsumerTimeout = TimeSpan.FromMilliseconds(10) }, timeProvider: _time);
        var stalled = Client(transport);
        stalled.Wire.Limit(0);
        await transport.SendAsync(Deliveries.To(stalled.Handle, "unread"));

        // As on Windows, where timers fire every 15.6 ms.
        for (var tick = 0; tick < 10; tick++)
            _time.Freeze(TimeSpan.FromMilliseconds(15.6));

        Assert.Equal(DisconnectReason.SlowConsumer, await stalled.Connection.Closing.WithinDeadline());
    }

    [Fact]
    public async Task A_handshake_that_was_under_way_goes_on()
    {
        await using var server = await TcpServer.StartAsync(new BroadcastOptions { TrustedProxies = { IPNetwork.Parse("127.0.0.0/8") } }, listener => listener.UseProxyProtocol = true, _time);
        using var proxy = await LineClient.ConnectAsync(server.EndPoint);
        var header = ProxyHeaders.Make(1, IPEndPoint.Parse("192.0.2.1:56324"));
        await proxy.SendAsync(header.AsMemory(0, 6));
        await _time.WaitForTimersAsync(2);

        _time.Freeze(33 * Second);
        await proxy.SendAsync((byte[])[.. header[6..], .. "in\n"u8]);

        Assert.Equal("in", await proxy.ReadLineAsync());
    }

    [Fact]
    [Trait("Lane", "faults: a process is frozen for seconds")]
    public async Task SIGSTOP_ends_no_client_that_sends_or_reads()
    {
        var limit = 6 * Second;
        using var server = await EdgeWorkerProcess.StartAsync(limit);
        using var sender = await ConnectAsync(server.EndPoint);
        using var reader = await ConnectAsync(server.EndPoint);
        await reader.SendAsync("flood\r\n"u8.ToArray());
        await sender.SendAsync("before\r\n"u8.ToArray());
        await ReadPastAsync(sender, "before\r\n");

        server.Freeze();
        for (var waited = TimeSpan.Zero; waited < 1.5 * limit; waited += limit / 12)
        {
            await sender.SendAsync("meanwhile\r\n"u8.ToArray());
            await reader.SendAsync("still here\r\n"u8.ToArray());
            await Task.Delay(limit / 12, TestContext.Current.CancellationToken);
        }

        server.Thaw();

        foreach (var client in new[] { reader, sender })
        {
            await client.SendAsync("after\r\n"u8.ToArray());
            await ReadPastAsync(client, "after\r\n");
        }
    }

    private static FakeClient Client(BroadcastTransport transport) => new(transport, timeProvider: transport.Clock);

    /// <summary>What the clients' sockets bring and take once the process runs: each sends a line, and the reader reads.</summary>
    private static async Task RoundAsync(BroadcastTransport transport, params FakeClient[] clients)
    {
        clients[0].Wire.Open();
        await transport.SendAsync(Deliveries.To(clients[0].Handle, "line"));
        await Until.TrueAsync(() => clients[0].Connection.Output.HeldBytes == 0);
        foreach (var client in clients)
            client.Connection.Activity.NoteRecord();
    }

    private static async Task<Socket> ConnectAsync(IPEndPoint endPoint)
    {
        var socket = new Socket(endPoint.AddressFamily, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        await socket.ConnectAsync(endPoint);
        return socket;
    }

    private static async Task ReadPastAsync(Socket socket, string text)
    {
        var (buffer, received) = (new byte[256 * 1024], string.Empty);
        while (!received.Contains(text, StringComparison.Ordinal))
        {
            var read = await socket.ReceiveAsync(buffer).WithinDeadline();
            Assert.NotEqual(0, read);
            received = received[^Math.Min(received.Length, text.Length)..] + Encoding.Latin1.GetString(buffer, 0, read);
        }
    }
}
