using System.IO.Compression;
using System.Net.Sockets;
using System.Text;
using BatchKit.Broadcast.Telnet;
using BatchKit.Broadcast.Tests.Tcp;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Telnet;

public sealed class TelnetSocketTests
{
    [Fact]
    public async Task A_client_of_plain_TCP_sees_text_and_nothing_else()
    {
        await using var server = await StartAsync(TelnetFeatures.None);
        using var client = await LineClient.ConnectAsync(server.EndPoint);

        await client.SendAsync("look\nwho\n");
        client.Finish();

        Assert.Equal("look\nwho\n", await client.ReadToEndAsync());
    }

    [Fact]
    public async Task A_compressed_client_gets_every_line_and_the_end_of_the_stream_however_slowly_it_reads()
    {
        await using var server = await StartAsync(TelnetFeatures.Compression);
        using var client = await LineClient.ConnectAsync(server.EndPoint, isSmall: true);
        var handler = await server.NextHandlerAsync();
        await client.SendAsync(TelnetScene.Bytes("FF FD 56 'start' 0A"));
        Assert.Equal("start", await handler.Records.ReadAsync().WithinDeadline());
        var random = new Random(1);
        var lines = Enumerable.Range(0, 3000).Select(number => $"{number} {Convert.ToHexString(Some.RandomBytes(random.Next(100), seed: number))}\r\n").ToArray();

        foreach (var line in lines)
            handler.Write(line);
        await server.Output.FlushAsync(handler.Connection.Handle).WithinDeadline();
        handler.Connection.Close();
        Assert.True(handler.Connection.Output.HeldBytes > 0);

        await ReadAsync(client.Socket, TelnetScene.Bytes("FF FB 56 FF FA 56 FF F0"));
        await using var inflated = new ZLibStream(client.Stream, CompressionMode.Decompress, leaveOpen: true);
        using var reader = new StreamReader(inflated, Encoding.UTF8);
        Assert.Equal("start\n" + string.Concat(lines), await reader.ReadToEndAsync().WithinDeadline());
    }

    [Fact]
    public async Task A_client_that_floods_negotiation_is_disconnected()
    {
        await using var server = await StartAsync(TelnetFeatures.None);
        using var client = await LineClient.ConnectAsync(server.EndPoint);
        var handler = await server.NextHandlerAsync();

        await client.SendAsync(Enumerable.Repeat(TelnetScene.Bytes("FF FD 01"), 5000).SelectMany(request => request).ToArray());

        var answers = await client.ReadToEndAsync();
        client.Dispose();
        Assert.InRange(answers.Length, 3, 3 * 1024);
        Assert.Equal(DisconnectReason.ProtocolError, await handler.Ended.WithinDeadline());
    }

    private static Task<TcpServer> StartAsync(TelnetFeatures offered) => TcpServer.StartAsync(configure: listener =>
    {
        listener.Protocol = ClientProtocol.Telnet;
        listener.Telnet.Offered = offered;
    });

    private static async Task ReadAsync(Socket socket, byte[] expected)
    {
        var bytes = new byte[expected.Length];
        for (var length = 0; length < bytes.Length;)
            length += await socket.ReceiveAsync(bytes.AsMemory(length)).WithinDeadline();
        Assert.Equal(expected, bytes);
    }
}
