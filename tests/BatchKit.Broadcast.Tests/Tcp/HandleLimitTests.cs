using System.Net;
using BatchKit.Broadcast.Tcp;
using BatchKit.Broadcast.Tests.WebSockets;
using BatchKit.Testing;
using BatchKit.TestServers.EdgeWorker;

namespace BatchKit.Broadcast.Tests.Tcp;

/// <summary>Clients that would take the last file handles of the process: without one .NET can start no thread, and ends the process.</summary>
public sealed class HandleLimitTests
{
    [Fact]
    public async Task A_client_that_would_take_one_of_the_last_handles_is_turned_away_until_others_leave()
    {
        await using var server = await TcpServer.StartAsync(new BroadcastOptions { TurnAwayMessage = "Full.\n" });
        using var served = await LineClient.ConnectAsync(server.EndPoint);
        await served.SendAsync("one\n");
        Assert.Equal("one", await served.ReadLineAsync());

        server.Transport.MostHandles = 0;
        using var refused = await LineClient.ConnectAsync(server.EndPoint);
        Assert.Equal("Full.\n", await refused.ReadToEndAsync());
        await served.SendAsync("two\n");
        Assert.Equal("two", await served.ReadLineAsync());
        Assert.Contains("ulimit -n", await server.LoggedAsync(2309), StringComparison.Ordinal);

        server.Transport.MostHandles = null;
        using var later = await LineClient.ConnectAsync(server.EndPoint);
        await later.SendAsync("three\n");
        Assert.Equal("three", await later.ReadLineAsync());
    }

    [Fact]
    public async Task A_WebSocket_client_gets_503_then_and_its_connection_ends()
    {
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup());
        host.Transport.MostHandles = 0;

        using var refused = await RawClient.ConnectAsync(host.EndPoint);
        host.Transport.MostHandles = null;
        using var served = await RawClient.ConnectAsync(host.EndPoint);

        Assert.StartsWith("HTTP/1.1 503 ", refused.Head);
        await refused.ReadToEndAsync();
        Assert.StartsWith("HTTP/1.1 101 ", served.Head);
    }

    [Fact]
    [Trait("Lane", "faults: a process runs out of file handles")]
    public async Task A_process_without_handles_for_all_clients_serves_those_that_it_has()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Only Linux tells its limit.");
        const int handles = 500;
        using var server = await EdgeWorkerProcess.StartAsync(TimeSpan.FromMinutes(5), handles);
        var clients = await Task.WhenAll(Enumerable.Range(0, 2 * handles).Select(_ => LineClient.ConnectAsync(server.EndPoint)));

        var answers = await Task.WhenAll(clients.Select(AskAsync));
        Array.ForEach(clients, static client => client.Dispose());

        Assert.InRange(answers.Count(static isServed => isServed), handles / 4, handles);
        await Until.TrueAsync(async () =>
        {
            using var late = await LineClient.ConnectAsync(server.EndPoint);
            return await AskAsync(late);
        });
    }

    [Theory]
    [InlineData("Limit                     Soft Limit           Hard Limit           Units     \nMax processes             unlimited            unlimited            processes \nMax open files            20000                30000                files     \n", 20000)]
    [InlineData("Max open files            unlimited            unlimited            files     ", null)]
    [InlineData("Max open files", null)]
    [InlineData("", null)]
    public void The_limit_is_read_as_Linux_writes_it(string text, int? limit) => Assert.Equal(limit, HandleLimit.Parse(text));

    private static async Task<bool> AskAsync(LineClient client)
    {
        try
        {
            await client.SendAsync("hello\r\n");
            while (await client.ReadLineAsync() is { } line)
            {
                if (line.Contains("hello", StringComparison.Ordinal))
                    return true;
            }
        }
        catch (IOException)
        {
            // It was turned away.
        }

        return false;
    }
}
