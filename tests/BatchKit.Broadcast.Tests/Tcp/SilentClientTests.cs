using System.Net.Sockets;
using System.Text;
using BatchKit.Broadcast.Telnet;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Tcp;

public sealed class SilentClientTests
{
    private readonly ManualTimeProvider _clock = new();

    [Fact]
    public async Task Bytes_that_make_no_record_do_not_keep_a_client()
    {
        await using var server = await TcpServer.StartAsync(new BroadcastOptions { IdleTimeout = TimeSpan.FromSeconds(10) }, clock: _clock);
        using var client = await LineClient.ConnectAsync(server.EndPoint);
        var handler = await server.NextHandlerAsync();

        for (var second = 1; second <= 10; second++)
        {
            await client.SendAsync("x");
            await Until.TrueAsync(() => handler.Connection.Activity.ReceivedBytes == second);
            Assert.False(handler.Connection.Closing.IsCompleted);
            _clock.Advance(TimeSpan.FromSeconds(1));
        }

        Assert.Equal("", await client.ReadToEndAsync());
        client.Dispose();
        Assert.Equal(DisconnectReason.Idle, await handler.Ended.WithinDeadline());
    }

    [Fact]
    public async Task Whole_records_keep_a_client()
    {
        await using var server = await TcpServer.StartAsync(new BroadcastOptions { IdleTimeout = TimeSpan.FromSeconds(10) }, clock: _clock);
        using var client = await LineClient.ConnectAsync(server.EndPoint);

        for (var round = 0; round < 5; round++)
        {
            _clock.Advance(TimeSpan.FromSeconds(9));
            await client.SendAsync("x\n");
            Assert.Equal("x", await client.ReadLineAsync());
        }
    }

    [Fact]
    public async Task Who_is_not_authenticated_in_time_is_closed()
    {
        await using var server = await TcpServer.StartAsync(new BroadcastOptions { AuthenticationTimeout = TimeSpan.FromSeconds(5) }, clock: _clock);
        using var known = await LineClient.ConnectAsync(server.EndPoint);
        (await server.NextHandlerAsync()).Connection.MarkAuthenticated();
        using var unknown = await LineClient.ConnectAsync(server.EndPoint);
        var handler = await server.NextHandlerAsync();

        _clock.Advance(TimeSpan.FromSeconds(6));

        Assert.Equal("", await unknown.ReadToEndAsync());
        unknown.Dispose();
        Assert.Equal(DisconnectReason.NotAuthenticated, await handler.Ended.WithinDeadline());
        await known.SendAsync("here\n");
        Assert.Equal("here", await known.ReadLineAsync());
    }

    [Theory]
    [InlineData(new byte[0], "one|two|")]
    [InlineData(new byte[] { 0xFF, 0xF1 }, "one|\u00ff\u00f1two|")]
    [InlineData(new byte[] { 0xFF, 0xFC, 0x18 }, "one|\u00ff\u00f1two|")]
    public async Task A_keep_alive_goes_to_telnet_clients_that_have_sent_a_telnet_command(byte[] command, string expected)
    {
        await using var server = await TcpServer.StartAsync(
            configure: listener =>
            {
                listener.Protocol = ClientProtocol.Telnet;
                listener.Telnet.Offered = TelnetFeatures.None;
            },
            clock: _clock);
        server.OnRecord = static (handler, record, _) =>
        {
            handler.Write(record + "|");
            return default;
        };
        using var client = new TcpClient();
        await client.ConnectAsync(server.EndPoint);
        var (buffer, received) = (new byte[100], 0);

        await client.Client.SendAsync((byte[])[.. command, .. "one\n"u8]);
        received += await client.Client.ReceiveAsync(buffer).WithinDeadline();
        _clock.Advance(TimeSpan.FromSeconds(61));
        await client.Client.SendAsync("two\n"u8.ToArray());
        while (buffer[..received].Count(static letter => letter == '|') < 2)
            received += await client.Client.ReceiveAsync(buffer.AsMemory(received)).AsTask().WithinDeadline();

        Assert.Equal(expected, Encoding.Latin1.GetString(buffer, 0, received));
    }

    [Fact]
    public async Task Who_is_authenticated_may_send_more()
    {
        await using var server = await TcpServer.StartAsync(new BroadcastOptions { MaxUnauthenticatedBytes = 8 });
        server.OnRecord = (handler, record, _) =>
        {
            handler.Connection.MarkAuthenticated();
            handler.Write(record + "\n");
            return default;
        };
        using var client = await LineClient.ConnectAsync(server.EndPoint);

        await client.SendAsync("one\n");
        Assert.Equal("one", await client.ReadLineAsync());
        await client.SendAsync("two, which is longer\n");

        Assert.Equal("two, which is longer", await client.ReadLineAsync());
    }
}
