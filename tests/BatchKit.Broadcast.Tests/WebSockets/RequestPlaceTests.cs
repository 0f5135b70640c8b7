using System.Net;
using System.Net.Sockets;
using System.Text;
using BatchKit.Broadcast.Tcp;
using BatchKit.Broadcast.WebSockets;
using Microsoft.AspNetCore.Connections;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Server.Kestrel.Core;

namespace BatchKit.Broadcast.Tests.WebSockets;

/// <summary>Connections to the HTTP endpoint that are no WebSocket yet, or never become one.</summary>
public sealed class RequestPlaceTests
{
    private const int Limit = 4;

    private static readonly IPAddress Other = IPAddress.Parse("127.0.0.2");

    [Fact]
    public async Task An_address_with_too_many_idle_connections_gets_no_more_and_another_address_is_served()
    {
        await using var host = await StartAsync();
        var connections = new List<Socket>();
        for (var connection = 0; connection <= Limit; connection++)
            connections.Add(await ConnectAsync(host, IPAddress.Loopback));
        using var served = await ConnectAsync(host, Other);

        // The server looks at connections on several threads, so the last one may get a place before another one.
        var answers = connections.ConvertAll(static connection => connection.ReceiveAsync(new byte[1]));
        var refused = answers.IndexOf(await Task.WhenAny(answers).WithinDeadline());
        Assert.Equal(0, await answers[refused]);
        Assert.StartsWith("HTTP/1.1 404 ", await AskAsync(served), StringComparison.Ordinal);
        foreach (var connection in connections.Where((_, index) => index != refused))
            await SendAsync(connection);
        Assert.Equal(Limit, (await Task.WhenAll(answers).WithinDeadline()).Sum());
        connections.ForEach(static connection => connection.Dispose());
    }

    [Fact]
    public async Task The_place_of_a_connection_that_has_ended_is_free()
    {
        await using var host = await StartAsync();

        for (var connection = 0; connection < 3 * Limit; connection++)
        {
            using var client = await ConnectAsync(host, IPAddress.Loopback);
            Assert.StartsWith("HTTP/1.1 404 ", await AskAsync(client, "Connection: close\r\n"), StringComparison.Ordinal);
            // The server has ended the connection when it closes its side.
            while (await client.ReceiveAsync(new byte[1024]).WithinDeadline() > 0)
            {
            }
        }
    }

    [Fact]
    public async Task A_websocket_does_not_count_and_goes_directly_to_its_socket()
    {
        await using var host = await StartAsync();
        var clients = new List<RawClient>();

        for (var client = 0; client < 3 * Limit; client++)
        {
            clients.Add(await RawClient.ConnectAndAnswerAsync(host.EndPoint));
            await host.HandlerAsync();
            await host.Log.NextAsync("goes directly to its socket").WithinDeadline();
        }

        Assert.Equal(3 * Limit, host.Transport.GetStatistics().Connections);
        clients.ForEach(static client => client.Dispose());
    }

    [Fact]
    public async Task A_connection_with_one_of_the_last_file_handles_is_closed_at_once()
    {
        var places = new RequestPlaces(Limit, mostHandles: 0);
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup { Server = WebSocketHostSetup.Kestrel(listen => listen.Use(next => connection => places.ServeAsync(connection, next))) });

        using var refused = await ConnectAsync(host, IPAddress.Loopback);

        Assert.Equal(0, await refused.ReceiveAsync(new byte[1]).WithinDeadline());
    }

    [Theory]
    [InlineData(null)]
    [InlineData(3L)]
    public async Task Connections_without_a_request_leave_the_process_file_handles_whatever_the_application_sets(long? own)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Only Linux tells its limit.");
        KestrelServerOptions? kestrel = null;
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup
        {
            Server = server => server.UseKestrelCore().ConfigureKestrel(options =>
            {
                kestrel = options;
                options.Limits.MaxConcurrentConnections = own;
                options.Listen(IPAddress.Loopback, port: 0);
            }),
        });

        var most = HandleLimit.OfProcess!.Value;
        Assert.Equal(own ?? most / 8, kestrel!.Limits.MaxConcurrentConnections);
        Assert.Equal(most - kestrel.Limits.MaxConcurrentConnections, host.Transport.MostHandles);
    }

    private static Task<WebSocketHost> StartAsync() =>
        WebSocketHost.StartAsync(new WebSocketHostSetup { Server = WebSocketHostSetup.Kestrel(static listen => listen.LimitConnectionsPerAddress(Limit)) });

    private static async Task<Socket> ConnectAsync(WebSocketHost host, IPAddress from)
    {
        var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        socket.Bind(new IPEndPoint(from, port: 0));
        await socket.ConnectAsync(host.EndPoint).WithinDeadline();
        return socket;
    }

    private static Task<int> SendAsync(Socket socket, string headers = "") =>
        socket.SendAsync(Encoding.ASCII.GetBytes($"GET /nothing HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")).WithinDeadline();

    private static async Task<string> AskAsync(Socket socket, string headers = "")
    {
        await SendAsync(socket, headers);
        var answer = new byte[16];
        return Encoding.ASCII.GetString(answer, 0, await socket.ReceiveAsync(answer).WithinDeadline());
    }
}
