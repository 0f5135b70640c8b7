using System.Security.Authentication;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Tcp;

public sealed class TlsTests
{
    [Fact]
    public async Task Records_and_answers_are_encrypted()
    {
        await using var server = await StartAsync();
        using var client = await ConnectAsync(server);
        var handler = await server.NextHandlerAsync();

        await client.SendAsync(string.Concat(Some.Lines(10_000).Select(line => line + "\n")));

        Assert.Equal(Some.Lines(10_000), await client.ReadLinesAsync(10_000));
        Assert.True(handler.Connection.IsSecure);
    }

    [Fact]
    public async Task Telnet_clients_are_served_too()
    {
        await using var server = await StartAsync(configure: listener => listener.Protocol = ClientProtocol.Telnet);
        using var client = await ConnectAsync(server);
        var handler = await server.NextHandlerAsync();

        await client.SendAsync("look\r\n");

        Assert.Equal("look", await handler.Records.ReadAsync().WithinDeadline());
        Assert.Equal((ClientProtocol.Telnet, true), (handler.Connection.Protocol, handler.Connection.IsSecure));
    }

    [Fact]
    public async Task A_closing_server_says_so_behind_all_that_waits()
    {
        await using var server = await StartAsync(configure: listener => listener.Tls!.EnabledSslProtocols = SslProtocols.Tls12);
        using var plain = await LineClient.ConnectAsync(server.EndPoint);
        using var recorder = new RecordingStream(plain.Stream);
        using var client = await Certificate.SecureAsync(new LineClient(recorder, plain.Socket));
        var handler = await server.NextHandlerAsync();
        var text = string.Concat(Some.Lines(20_000).Select(line => line + "\n"));

        handler.Write(text);
        await server.Output.FlushAsync(handler.Connection.Handle).WithinDeadline();
        handler.Connection.Close();

        Assert.Equal(text, await client.ReadToEndAsync());
        Assert.Equal(RecordingStream.AlertRecord, recorder.LastRecordType);
        client.Dispose();
        Assert.Equal(DisconnectReason.Closed, await handler.Ended.WithinDeadline());
    }

    [Fact]
    public async Task A_client_that_closes_is_a_closed_one()
    {
        await using var server = await StartAsync();
        using var client = await ConnectAsync(server);
        var handler = await server.NextHandlerAsync();

        client.Dispose();

        Assert.Equal(DisconnectReason.ClientClosed, await handler.Ended.WithinDeadline());
        await server.WhenEmptyAsync();
    }

    [Fact]
    public async Task Who_speaks_no_TLS_is_dropped()
    {
        await using var server = await StartAsync();
        using var client = await LineClient.ConnectAsync(server.EndPoint);

        await client.SendAsync("look at this, which is no handshake\n");

        await server.LoggedAsync(2303);
        await server.WhenEmptyAsync();
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    public async Task Who_speaks_no_later_version_than_TLS_1_1_is_refused(byte minor)
    {
        await using var server = await StartAsync();
        using var client = await LineClient.ConnectAsync(server.EndPoint);

        // A client hello (RFC 4346, section 7.4.1.2) of version 3.1, which is TLS 1.0, or of 3.2 with cipher suites of those versions.
        await client.SendAsync((byte[])[22, 3, minor, 0, 49, 1, 0, 0, 45, 3, minor, .. new byte[32], 0, 0, 6, 0xC0, 0x0A, 0xC0, 0x09, 0xC0, 0x14, 1, 0]);

        // A fatal alert (RFC 4346, section 7.2), and no hello of the server's.
        Assert.Matches("^\u0015\u0003.\0\u0002\u0002.$", await client.ReadToEndAsync());
        Assert.Contains("did not establish its connection", await server.LoggedAsync(2303), StringComparison.Ordinal);
        await server.WhenEmptyAsync();
    }

    [Fact]
    public async Task Who_says_nothing_is_dropped_at_the_limit()
    {
        var clock = new ManualTimeProvider();
        await using var server = await StartAsync(clock: clock);
        using var client = await LineClient.ConnectAsync(server.EndPoint);

        await clock.WaitForTimersAsync(2);
        clock.Advance(new BroadcastOptions().HandshakeTimeout);

        Assert.Equal("", await client.ReadToEndAsync());
        Assert.Contains("too long", await server.LoggedAsync(2303));
        await server.WhenEmptyAsync();
    }

    [Fact]
    public async Task Stopping_ends_handshakes_under_way()
    {
        var clock = new ManualTimeProvider();
        await using var server = await StartAsync(clock: clock);
        using var client = await LineClient.ConnectAsync(server.EndPoint);
        await clock.WaitForTimersAsync(2);

        await server.Listener.StopAsync(CancellationToken.None).WithinDeadline();

        Assert.Equal("", await client.ReadToEndAsync());
        await server.WhenEmptyAsync();
    }

    [Fact]
    public async Task Clients_come_and_go_while_they_are_written_to()
    {
        await using var server = await StartAsync();
        server.OnRecord = (handler, _, _) =>
        {
            for (var line = 0; line < 100; line++)
                handler.Write("some line of text\n");
            handler.Connection.Close();
            return default;
        };

        await Task.WhenAll(Enumerable.Range(0, 50).Select(async index =>
        {
            using var client = await ConnectAsync(server);
            await client.SendAsync("go\n");
            if (index % 2 == 0)
                await client.ReadToEndAsync();
        }));

        await server.WhenEmptyAsync();
    }

    private static Task<TcpServer> StartAsync(Action<BroadcastListenerOptions>? configure = null, TimeProvider? clock = null) =>
        TcpServer.StartAsync(
            configure: listener =>
            {
                listener.Tls = Certificate.ForServer;
                configure?.Invoke(listener);
            },
            clock: clock);

    private static async Task<LineClient> ConnectAsync(TcpServer server) => await Certificate.SecureAsync(await LineClient.ConnectAsync(server.EndPoint));
}
