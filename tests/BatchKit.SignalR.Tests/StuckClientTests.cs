using BatchKit.SignalR.Tests.Support;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.AspNetCore.Server.Kestrel.Transport.Sockets;
using Microsoft.AspNetCore.SignalR;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.SignalR.Tests;

/// <summary>A client that does not read costs the others nothing that lasts.</summary>
public sealed class StuckClientTests
{
    private const string Ping = "{\"type\":6}";

    private static readonly string Filler = new('x', 2000);

    [Fact]
    public async Task A_client_that_does_not_read_is_cut_and_the_others_get_everything()
    {
        await using var server = await HubServer.StartAsync(options: options => options.StuckAfter = TimeSpan.FromSeconds(2));
        using var stuck = await RawClient.ConnectAsync(server.Address);
        await using var first = await HubClientConnection.ConnectAsync(server.Address);
        await using var second = await HubClientConnection.ConnectAsync(server.Address, isBinary: true);
        await Until.TrueAsync(() => server.Connections == 3);

        var sent = new List<string>();
        await Until.TrueAsync(async () =>
        {
            for (var message = 0; message < 200; message++)
            {
                sent.Add($"{sent.Count} {Filler}");
                await server.Hub.Clients.All.SendAsync(TestHub.Receive, sent[^1]);
            }

            return server.Counters.CutClients > 0;
        });

        await server.FlushAsync(first, second);
        Assert.Equal(sent, first.Texts);
        Assert.Equal(sent, second.Texts);
        Assert.Equal(1, server.Counters.CutClients);
        await Until.TrueAsync(() => server.Connections == 2);
    }

    [Fact]
    public async Task A_scope_above_the_limit_reaches_a_client_that_reads()
    {
        await using var server = await HubServer.StartAsync(options: options => options.MaxQueuedBytes = 4096);
        await using var client = await HubClientConnection.ConnectAsync(server.Address);

        await using (server.Output.BeginBufferingScope())
        {
            for (var number = 0; number < 2000; number++)
                await server.Hub.Clients.All.SendAsync(TestHub.Receive, $"{number} {Filler}");
        }

        await Until.TrueAsync(() => client.Texts.Length == 2000);
        Assert.Equal(Enumerable.Range(0, 2000).Select(static number => $"{number} {Filler}"), client.Texts);
        Assert.Equal(0, server.Counters.CutClients);
    }

    [Fact]
    public async Task One_stuck_client_of_twenty_costs_the_other_nineteen_no_wait_no_message_and_no_write()
    {
        // What is waited for at all would be waited for longer than the deadline.
        await using var server = await HubServer.StartAsync(options: options => (options.MaxQueuedBytes, options.StuckAfter) = (1 << 30, TimeSpan.FromMinutes(1)));
        using var stuck = await RawClient.ConnectAsync(server.Address);
        using var observer = await RawClient.ConnectAsync(server.Address);
        var others = new List<HubClientConnection>();
        for (var client = 0; client < 18; client++)
            others.Add(await HubClientConnection.ConnectAsync(server.Address, isBinary: client % 2 == 1));
        await Until.TrueAsync(() => server.Connections == 20);

        // More than the sockets of a connection hold: 4 MiB with Linux's settings.
        for (var scope = 0; scope < 6; scope++)
        {
            await SendScopeAsync(server, 500, Filler);
            await ReadAsync(observer, 500);
        }

        await SendScopeAsync(server, 1000, "counted");
        Assert.Equal(1000, await CountNextAsync(observer));
        for (var message = 0; message < 100; message++)
            await server.Hub.Clients.All.SendAsync(TestHub.Receive, $"{message} awaited").WithinDeadline();

        await server.FlushAsync([.. others]);
        string[] expected = [.. Enumerable.Range(0, 1000).Select(static number => $"{number} counted"), .. Enumerable.Range(0, 100).Select(static number => $"{number} awaited")];
        Assert.All(others, other => Assert.Equal(expected, other.Texts[^1100..]));
        Assert.All(others, static other => Assert.Equal((6 * 500) + 1100, other.Texts.Length));
        Assert.Equal(20, server.Connections);
        Assert.Equal(0, server.Counters.CutClients);
        foreach (var other in others)
            await other.DisposeAsync();
    }

    [Fact]
    public async Task A_send_that_waits_for_a_client_beyond_its_time_limit_is_not_repeated_to_the_others()
    {
        await using var server = await HubServer.StartAsync(
            options: options => (options.MaxQueuedBytes, options.StuckAfter) = (64 * 1024, TimeSpan.FromMinutes(1)),
            services: static services => services.AddBatchKit(static buffer => buffer.SendTimeout = TimeSpan.FromMilliseconds(100)));
        using var slow = await RawClient.ConnectAsync(server.Address);
        await using var other = await HubClientConnection.ConnectAsync(server.Address);
        await Until.TrueAsync(() => server.Connections == 2);

        // More than the sockets of a connection hold: 4 MiB with Linux's settings.
        await SendScopeAsync(server, 3000, Filler);

        await server.FlushAsync(other);
        Assert.Equal(Enumerable.Range(0, 3000).Select(static number => $"{number} {Filler}"), other.Texts);
        Assert.Equal(0, server.Output.GetStatistics().FailedSends);
    }

    [Fact]
    public async Task A_client_that_reads_a_large_scope_is_not_cut_by_what_comes_over_the_backplane_meanwhile()
    {
        var bus = new FrameBus();
        await using var server = await HubServer.StartAsync(
            bus.Join, options => (options.MaxQueuedBytes, options.StuckAfter) = (64 * 1024, TimeSpan.FromMinutes(1)), static services => services.Configure<SocketTransportOptions>(HoldLittle));
        await using var other = await HubServer.StartAsync(bus.Join);
        using var client = await RawClient.ConnectAsync(server.Address);
        await Until.TrueAsync(() => server.Connections == 1);

        var sending = SendScopeAsync(server, 1000, Filler);
        await Until.TrueAsync(() => server.Counters.Messages == 1000);
        await other.Hub.Clients.All.SendAsync(TestHub.Receive, "meanwhile");
        await Until.TrueAsync(() => server.Services.GetRequiredService<FrameReceiver>().GetStatistics() is var frames && frames.ReceivedMessages > frames.OwnGroupMessages);

        var read = await ReadAsync(client, 1001);
        await sending.WithinDeadline();
        Assert.Equal(RecordOf("meanwhile"), read[^1]);
        Assert.Equal(0, server.Counters.CutClients);
    }

    [Fact]
    public async Task A_client_that_reads_late_gets_each_scope_as_it_was_sent()
    {
        await using var server = await HubServer.StartAsync(options: options => (options.MaxQueuedBytes, options.StuckAfter) = (1 << 30, TimeSpan.FromMinutes(1)));
        using var late = await RawClient.ConnectAsync(server.Address);
        using var observer = await RawClient.ConnectAsync(server.Address);
        await Until.TrueAsync(() => server.Connections == 2);
        var expected = new List<string>();

        // More than the late client's sockets hold. What the observer has read may use its memory again.
        for (var scope = 0; scope < 10; scope++)
        {
            var text = new string((char)('a' + scope), 2000);
            await SendScopeAsync(server, 300, text);
            await ReadAsync(observer, 300);
            expected.AddRange(Enumerable.Range(0, 300).Select(number => RecordOf($"{number} {text}")));
        }

        Assert.Equal(expected, await ReadAsync(late, expected.Count));
    }

    [Fact]
    public async Task A_client_that_reads_slowly_gets_a_scope_above_the_limit_and_what_comes_after_it()
    {
        var clock = new ManualTimeProvider();
        await using var server = await HubServer.StartAsync(
            options: options => options.MaxQueuedBytes = 64 * 1024,
            services: services => services.AddSingleton<TimeProvider>(clock).Configure<SocketTransportOptions>(HoldLittle));
        using var slow = await RawClient.ConnectAsync(server.Address);
        await Until.TrueAsync(() => server.Connections == 1);

        var scope = SendScopeAsync(server, 1500, Filler);
        for (var step = 0; step < 3; step++)
        {
            await ReadSomeAsync(slow, server);
            clock.Advance(TimeSpan.FromSeconds(0.6));
        }

        await scope.WithinDeadline();
        var after = server.Hub.Clients.All.SendAsync(TestHub.Receive, "after");
        string[] expected = [.. Enumerable.Range(0, 1500).Select(static number => RecordOf($"{number} {Filler}")), RecordOf("after")];
        Assert.Equal(expected, await ReadAsync(slow, expected.Length));
        await after.WithinDeadline();
        Assert.Equal(0, server.Counters.CutClients);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_client_that_reads_slowly_does_not_hold_up_the_others_for_ever(bool isOverBackplane)
    {
        var (clock, bus) = (new ManualTimeProvider(), new FrameBus());
        await using var server = await HubServer.StartAsync(
            bus.Join, options => options.MaxQueuedBytes = 64 * 1024, services => JsonAlone(services).AddSingleton<TimeProvider>(clock).Configure<SocketTransportOptions>(HoldLittle));
        await using var remote = await HubServer.StartAsync(bus.Join, services: static services => JsonAlone(services));
        using var slow = await RawClient.ConnectAsync(server.Address);
        await using var other = await HubClientConnection.ConnectAsync(server.Address);
        await Until.TrueAsync(() => server.Connections == 2);

        // Less than a frame, and much more than is read.
        var sender = isOverBackplane ? remote : server;
        var scope = SendScopeAsync(sender, 400, Filler);
        await Until.TrueAsync(() => server.Counters.Messages == 800 && other.Texts.Length == 400);
        var after = sender.Hub.Clients.Client(other.Id).SendAsync(TestHub.Receive, "after");
        for (var step = 0; step < 3; step++)
        {
            await ReadSomeAsync(slow, server);
            clock.Advance(TimeSpan.FromSeconds(0.6));
        }

        await Task.WhenAll(scope, after, other.WaitForAsync("after")).WithinDeadline();
        Assert.Equal(400, (await ReadAsync(slow, 400)).Length);
        Assert.Equal(0, server.Counters.CutClients);
    }

    [Fact]
    public async Task A_methods_result_comes_behind_a_scope_of_several_writes()
    {
        await using var server = await HubServer.StartAsync();
        using var client = await RawClient.ConnectAsync(server.Address);

        await client.SendAsync("{\"type\":1,\"invocationId\":\"1\",\"target\":\"Loop\",\"arguments\":[10000]}\u001e");

        var records = await ReadAsync(client, 10_001);
        Assert.Equal(Enumerable.Range(1, 10_000).Select(static number => RecordOf($"{number}")), records[..^1]);
        Assert.Contains("\"type\":3", records[^1], StringComparison.Ordinal);
        Assert.True(server.Counters.Writes > 1);
    }

    /// <summary>Sockets that hold little, so that a client that does not read is noticed soon.</summary>
    private static void HoldLittle(SocketTransportOptions options) => options.CreateBoundListenSocket = static endpoint =>
    {
        var socket = SocketTransportOptions.CreateDefaultBoundListenSocket(endpoint);
        socket.SendBufferSize = 16 * 1024;
        return socket;
    };

    private static IServiceCollection JsonAlone(IServiceCollection services) => services.Configure<HubOptions<TestHub>>(static options => options.SupportedProtocols = ["json"]);

    /// <summary>Reads until the server has ended a write that it began meanwhile, or as much as eight writes have.</summary>
    private static async Task ReadSomeAsync(RawClient client, HubServer server)
    {
        var writes = server.Counters.Writes;
        for (var bytes = 0; bytes < 8 * 64 * 1024 && server.Counters.Writes < writes + 2; bytes += 4096)
            await client.ReadAheadAsync(4096);
    }

    private static string RecordOf(string text) => $$"""{"type":1,"target":"Receive","arguments":["{{text}}"]}""";

    /// <summary>Reads so many messages, without SignalR's own pings.</summary>
    private static async Task<string[]> ReadAsync(RawClient client, int messages)
    {
        var read = new List<string>();
        while (read.Count < messages)
            read.AddRange((await client.ReadMessageAsync()).Where(static record => record != Ping));
        return [.. read];
    }

    /// <summary>How many messages the next write has, without SignalR's own pings.</summary>
    private static async Task<int> CountNextAsync(RawClient client)
    {
        int count;
        do
            count = (await client.ReadMessageAsync()).Count(static record => record != Ping);
        while (count == 0);
        return count;
    }

    private static async Task SendScopeAsync(HubServer server, int messages, string text)
    {
        await using (server.Output.BeginBufferingScope())
        {
            for (var number = 0; number < messages; number++)
                await server.Hub.Clients.All.SendAsync(TestHub.Receive, $"{number} {text}");
        }
    }
}
