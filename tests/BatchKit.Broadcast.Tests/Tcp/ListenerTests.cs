using System.Net;
using System.Net.Sockets;
using System.Text;
using BatchKit.Broadcast.Telnet;
using BatchKit.Testing;
using Microsoft.Extensions.Options;

namespace BatchKit.Broadcast.Tests.Tcp;

public sealed class ListenerTests
{
    [Fact]
    public async Task Lines_are_taken_in_order_however_they_are_cut_into_packets()
    {
        await using var server = await TcpServer.StartAsync();
        using var client = await LineClient.ConnectAsync(server.EndPoint);

        await client.SendAsync("one\r\ntwo\nthr");
        Assert.Equal("one", await client.ReadLineAsync());
        await client.SendAsync("ee\n\nfive\n");

        Assert.Equal(["two", "three", "", "five"], await client.ReadLinesAsync(4));
    }

    [Fact]
    public async Task Records_behind_their_length_are_taken()
    {
        await using var server = await TcpServer.StartAsync(configure: listener => listener.Cutter = LengthPrefixCutter.Shared);
        using var client = await LineClient.ConnectAsync(server.EndPoint);

        await client.SendAsync("\0\0\0\u0003one\0\0\0\0\0\0\0\u0003two");

        Assert.Equal(["one", "", "two"], await client.ReadLinesAsync(3));
    }

    [Fact]
    public async Task A_thousand_pipelined_lines_are_answered_in_order()
    {
        await using var server = await TcpServer.StartAsync();
        using var client = await LineClient.ConnectAsync(server.EndPoint);

        await client.SendAsync(string.Concat(Some.Lines(1000).Select(line => line + "\r\n")));
        client.Finish();

        var answer = await client.ReadToEndAsync();
        Assert.Equal(string.Concat(Some.Lines(1000).Select(line => line + "\n")), answer);
    }

    [Fact]
    public async Task All_replies_to_one_read_leave_in_one_send()
    {
        await using var server = await TcpServer.StartAsync();
        using var client = await LineClient.ConnectAsync(server.EndPoint);

        await client.SendAsync("1\n2\n3\n4\n");
        var bytes = new byte[100];
        var read = await client.Stream.ReadAsync(bytes).WithinDeadline();

        Assert.Equal("1\n2\n3\n4\n", Encoding.UTF8.GetString(bytes, 0, read));
    }

    [Fact]
    public async Task Telnet_clients_get_telnet_connections()
    {
        await using var server = await TcpServer.StartAsync(configure: listener => listener.Protocol = ClientProtocol.Telnet);
        using var client = await LineClient.ConnectAsync(server.EndPoint);

        await client.SendAsync("look\r\n");
        var handler = await server.NextHandlerAsync();

        Assert.Equal("look", await handler.Records.ReadAsync().WithinDeadline());
        Assert.Equal(ClientProtocol.Telnet, handler.Connection.Protocol);
        Assert.NotNull(handler.Connection.Terminal);
    }

    [Fact]
    public async Task A_telnet_clients_Synch_takes_no_character_of_its_text()
    {
        await using var server = await TcpServer.StartAsync(configure: listener => listener.Protocol = ClientProtocol.Telnet);
        using var client = await LineClient.ConnectAsync(server.EndPoint);
        var handler = await server.NextHandlerAsync();

        // IAC, and the data mark as urgent data (RFC 854, the TELNET "Synch" signal).
        client.Socket.Send([255, 242], SocketFlags.OutOfBand);
        await client.SendAsync("look\r\n");

        Assert.Equal("look", await handler.Records.ReadAsync().WithinDeadline());
    }

    [Fact]
    public async Task A_port_in_use_is_named_with_its_setting()
    {
        await using var first = await TcpServer.StartAsync();

        var failure = await Assert.ThrowsAsync<IOException>(() => TcpServer.StartAsync(configure: listener => listener.EndPoint = first.EndPoint));

        Assert.Contains(first.EndPoint.ToString(), failure.Message);
        Assert.Contains(nameof(BroadcastListenerOptions.EndPoint), failure.Message);
    }

    [Fact]
    public async Task An_address_of_another_machine_is_named_with_its_setting()
    {
        // 192.0.2.0/24 is for documents only (RFC 5737).
        var failure = await Assert.ThrowsAsync<IOException>(
            () => TcpServer.StartAsync(configure: listener => listener.EndPoint = new IPEndPoint(IPAddress.Parse("192.0.2.1"), 0)));

        Assert.Contains("192.0.2.1:0", failure.Message);
        Assert.Contains(nameof(BroadcastListenerOptions.EndPoint), failure.Message);
    }

    [Fact]
    public async Task The_address_of_all_IPv6_takes_IPv4_clients_by_their_own_address()
    {
        Assert.SkipUnless(Socket.OSSupportsIPv6, "This machine has no IPv6.");
        await using var server = await TcpServer.StartAsync(configure: listener => listener.EndPoint = new IPEndPoint(IPAddress.IPv6Any, 0));
        using var client = await LineClient.ConnectAsync(new IPEndPoint(IPAddress.Loopback, server.EndPoint.Port));

        var handler = await server.NextHandlerAsync();

        Assert.Equal(client.Socket.LocalEndPoint, handler.Connection.RemoteEndPoint);
        Assert.False(handler.Connection.IsSecure);
    }

    [Theory]
    [InlineData(nameof(BroadcastListenerOptions.Backlog))]
    [InlineData(nameof(BroadcastListenerOptions.Protocol))]
    [InlineData(nameof(BroadcastListenerOptions.EndPoint))]
    [InlineData(nameof(BroadcastListenerOptions.Cutter))]
    [InlineData(nameof(BroadcastListenerOptions.Tls))]
    [InlineData(nameof(BroadcastListenerOptions.Telnet))]
    public async Task A_setting_out_of_range_is_named(string setting)
    {
        var failure = await Assert.ThrowsAsync<OptionsValidationException>(() => TcpServer.StartAsync(configure: listener => Spoil(listener, setting)));

        Assert.Contains(setting, failure.Message);
    }

    [Fact]
    public async Task It_has_no_end_point_before_it_was_started_and_starts_once()
    {
        await using var transport = new BroadcastTransport();
        await using var listener = new BroadcastListener(
            transport, new BroadcastListenerOptions { EndPoint = new IPEndPoint(IPAddress.Loopback, 0) }, _ => throw new InvalidOperationException());

        Assert.Throws<InvalidOperationException>(() => listener.EndPoint);
        await listener.StartAsync(CancellationToken.None);
        Assert.NotEqual(0, listener.EndPoint.Port);
        await Assert.ThrowsAsync<InvalidOperationException>(() => listener.StartAsync(CancellationToken.None));
    }

    [Fact]
    public async Task Stopped_it_lets_nobody_in_and_keeps_its_connections()
    {
        await using var server = await TcpServer.StartAsync();
        using var client = await LineClient.ConnectAsync(server.EndPoint);
        await server.NextHandlerAsync();

        await server.Listener.StopAsync(CancellationToken.None).WithinDeadline();
        await server.Listener.StopAsync(CancellationToken.None).WithinDeadline();
        await client.SendAsync("still here\n");

        Assert.Equal("still here", await client.ReadLineAsync());
        await Assert.ThrowsAsync<SocketException>(() => LineClient.ConnectAsync(server.EndPoint));
    }

    [Fact]
    public async Task Disposed_it_has_ended_its_connections_and_holds_nothing()
    {
        await using var server = await TcpServer.StartAsync();
        using var client = await LineClient.ConnectAsync(server.EndPoint);
        var handler = await server.NextHandlerAsync();

        await server.Listener.DisposeAsync().WithinDeadline();
        await server.Listener.DisposeAsync().WithinDeadline();

        Assert.Equal(DisconnectReason.Stopped, await handler.Ended.WithinDeadline());
        Assert.Equal((0, 0), (server.Transport.Connections.Count, server.Transport.Connections.Places));
    }

    [Fact]
    public async Task Disposed_it_leaves_a_handler_that_hangs_behind_and_logs_it()
    {
        var clock = new ManualTimeProvider();
        await using var server = await TcpServer.StartAsync(clock: clock);
        var entered = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var released = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        server.OnRecord = async (_, _, _) =>
        {
            entered.SetResult();
            await released.Task;
        };
        using var client = await LineClient.ConnectAsync(server.EndPoint);
        var handler = await server.NextHandlerAsync();
        await client.SendAsync("hang\n");
        await entered.Task.WithinDeadline();

        var limit = server.Transport.Options.DrainTimeout + server.Transport.Options.CloseTimeout;
        await server.Listener.DisposeAsync().AsTask().WhileAdvancing(() => clock.Advance(limit));

        var isLeftBehind = !handler.Ended.IsCompleted;
        released.SetResult();

        Assert.True(isLeftBehind);
        Assert.Contains("1 handlers still ran", await server.LoggedAsync(2311), StringComparison.Ordinal);
        Assert.Equal(DisconnectReason.Stopped, await handler.Ended.WithinDeadline());
    }

    [Fact]
    public async Task Disposed_it_leaves_a_handler_that_blocks_its_thread_behind_and_closes_its_client_later()
    {
        var clock = new ManualTimeProvider();
        await using var server = await TcpServer.StartAsync(clock: clock);
        using var released = new ManualResetEventSlim();
        server.OnStart = () => released.Wait(Deadline.Time);
        using var client = await LineClient.ConnectAsync(server.EndPoint);
        var handler = await server.NextHandlerAsync();

        var limit = server.Transport.Options.DrainTimeout + server.Transport.Options.CloseTimeout;
        await server.Listener.DisposeAsync().AsTask().WhileAdvancing(() => clock.Advance(limit));

        var isLeftBehind = !handler.Ended.IsCompleted;
        released.Set();

        Assert.True(isLeftBehind);
        Assert.Contains("1 handlers still ran", await server.LoggedAsync(2311), StringComparison.Ordinal);
        Assert.Equal(DisconnectReason.Stopped, await handler.Ended.WithinDeadline());
    }

    [Fact]
    public async Task Drained_clients_read_the_goodbye_before_they_are_gone()
    {
        await using var server = await TcpServer.StartAsync(new BroadcastOptions { GoodbyeMessage = "Bye.\n" });
        using var client = await LineClient.ConnectAsync(server.EndPoint);
        var handler = await server.NextHandlerAsync();

        await server.Listener.StopAsync(CancellationToken.None).WithinDeadline();
        await server.Transport.DrainAsync(CancellationToken.None).WithinDeadline();
        var disposing = server.Listener.DisposeAsync().WithinDeadline();

        Assert.Equal("Bye.\n", await client.ReadToEndAsync());
        client.Dispose();
        await disposing;
        Assert.Equal(DisconnectReason.Stopped, await handler.Ended.WithinDeadline());
    }

    private static void Spoil(BroadcastListenerOptions options, string setting)
    {
        switch (setting)
        {
            case nameof(BroadcastListenerOptions.Backlog):
                options.Backlog = 0;
                break;
            case nameof(BroadcastListenerOptions.Protocol):
                options.Protocol = ClientProtocol.WebSocket;
                break;
            case nameof(BroadcastListenerOptions.EndPoint):
                options.EndPoint = null!;
                break;
            case nameof(BroadcastListenerOptions.Cutter):
                options.Cutter = null!;
                break;
            case nameof(BroadcastListenerOptions.Tls):
                options.Tls = new();
                break;
            default:
                options.Telnet.Supported = (TelnetFeatures)(-1);
                break;
        }
    }
}
