using System.Net.Sockets;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Broadcast.Tests.Tcp;
using BatchKit.Broadcast.Tests.WebSockets;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Transport;

/// <summary>A client that reads a little at a time is no client that takes nothing, although the system reports its socket writable only after megabytes.</summary>
public sealed class SteadyReaderTests
{
    // Far more than the buffers of the system and of Kestrel take.
    private const int Messages = 3000;
    private static readonly string Message = new('x', 8000);
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(2);

    private readonly ManualTimeProvider _clock = new();
    private readonly BroadcastOptions _options = new() { MaxQueuedBytes = 32 * 1024 * 1024, SlowConsumerTimeout = Limit, KeepAliveInterval = null };

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_client_of_a_listener_stays_while_it_reads(bool isSecure)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Only Linux tells what a client has acknowledged.");
        await using var server = await TcpServer.StartAsync(_options, listener => listener.Tls = isSecure ? Certificate.ForServer : null, _clock);
        using var plain = await LineClient.ConnectAsync(server.EndPoint);
        using var client = isSecure ? await Certificate.SecureAsync(plain) : plain;
        var handler = await server.NextHandlerAsync();

        await AssertStaysWhileReadingAsync(server.Transport, handler.Connection, plain.Socket);

        Assert.Equal(DisconnectReason.SlowConsumer, await handler.Ended.WithinDeadline());
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_WebSocket_client_stays_while_it_reads(bool isDirect)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Only Linux tells what a client has acknowledged.");
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup { Options = _options, TimeProvider = _clock, Endpoint = { WritesDirectly = isDirect } });
        using var client = await RawClient.ConnectAsync(host, isDirect);
        var handler = await host.HandlerAsync();

        await AssertStaysWhileReadingAsync(host.Transport, handler.Connection, client.Socket);

        Assert.Equal(DisconnectReason.SlowConsumer, await handler.Ended.WithinDeadline());
    }

    [Fact]
    public async Task A_client_whose_stream_is_attached_stays_while_it_reads()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Only Linux tells what a client has acknowledged.");
        await using var transport = new BroadcastTransport(_options, timeProvider: _clock);
        var (client, server) = await SocketPair.ConnectAsync();
        using var reader = client;
        await using var stream = new NetworkStream(server, ownsSocket: true);
        await using var attached = transport.Attach(stream);

        await AssertStaysWhileReadingAsync(transport, attached.Connection, client);

        Assert.Equal(DisconnectReason.SlowConsumer, await attached.Ended.WithinDeadline());
    }

    /// <summary>It stays for four times the limit in which it reads less than makes its socket writable, and is disconnected once it reads no more.</summary>
    private async Task AssertStaysWhileReadingAsync(BroadcastTransport transport, ClientConnection connection, Socket client)
    {
        for (var message = 0; message < Messages; message++)
            await transport.SendAsync(Deliveries.To(connection.Handle, Message));
        Assert.InRange(connection.Output.HeldBytes, 1, int.MaxValue);

        for (var part = 0; part < 8; part++)
        {
            await ReadUntilAcknowledgedAsync(connection, client);
            _clock.Advance(Limit / 4);
            _clock.Advance(Limit / 4);
            Assert.False(connection.IsClosing);
        }

        await connection.Closing.WhileAdvancing(() => _clock.Advance(Limit / 4));
    }

    private static Task ReadUntilAcknowledgedAsync(ClientConnection connection, Socket client)
    {
        // A full receive buffer opens again when a sixteenth of it is free: of 6 MiB at most by default (tcp_rmem), 384 KiB.
        const int MostBytes = 640 * 1024;
        var (read, buffer) = (0, new byte[8 * 1024]);
        return Until.TrueAsync(() =>
        {
            if (read < MostBytes)
                read += client.Receive(buffer);
            return connection.Output.StalledFor == TimeSpan.Zero || connection.IsClosing;
        });
    }
}
