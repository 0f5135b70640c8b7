using BatchKit.Broadcast.Tests.Support;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Holds;

[Collection(HoldCollection.Name)]
public sealed class StopTests(ITestOutputHelper report)
{
    private const int Clients = 1000;
    private const int MessagesEach = 80;
    private const int GoingAway = 1001;

    [Fact]
    public async Task At_stop_everybody_reads_what_waits_and_the_goodbye_within_the_limit()
    {
        // The real time: a client that has everything keeps its side open, and the server ends that after the close timeout.
        await using var server = await HoldServer.StartAsync(new BroadcastOptions { GoodbyeMessage = "goodbye\n" }, TimeProvider.System);
        var crowd = await Crowd.ConnectAsync(server, Clients, small: Clients);
        await crowd.JoinAsync(crowd.Clients);
        foreach (var client in crowd.Clients)
            client.Socket.StopReading();
        await WriteAsync(server, MessagesEach);
        var openScope = server.Output.BeginBufferingScope(Crowd.Hall);
        server.Output.Write(Crowd.Hall, "last\n");
        var (waiting, buffered) = (server.Transport.GetStatistics(), server.Output.GetStatistics());

        var stopping = server.StopAsync();
        foreach (var client in crowd.Clients)
            client.Socket.GoOnReading();
        await stopping.WithinDeadline();

        await Task.WhenAll(crowd.Clients.Select(client => client.Socket.Ended)).WithinDeadline();
        Assert.Equal(1, buffered.PendingMessages);
        Assert.InRange(waiting.PendingMessages, Clients, Clients * MessagesEach);
        Assert.All(crowd.Clients, AssertGotAll);
        AssertNothingDropped(server);
        report.WriteLine($"{waiting.PendingMessages} messages ({waiting.PendingBytes:N0} B) waited at stop and arrived.");
        openScope.Dispose();
    }

    [Fact]
    public async Task Who_does_not_read_at_stop_is_cut_off_at_the_limit_and_counted()
    {
        var clock = new ManualTimeProvider();
        await using var server = await HoldServer.StartAsync(new BroadcastOptions { GoodbyeMessage = "goodbye\n" }, clock);
        var crowd = await Crowd.ConnectAsync(server, 30, small: 3);
        await crowd.JoinAsync(crowd.Clients);
        foreach (var client in crowd.Clients.Take(3))
            client.Socket.StopReading();
        await WriteAsync(server, MessagesEach);

        var stopping = server.StopAsync();
        await Task.WhenAll(crowd.Clients.Skip(3).Select(client => client.Socket.Ended)).WithinDeadline();
        var endedEarly = stopping.IsCompleted;
        await stopping.WhileAdvancing(() => clock.Advance(TimeSpan.FromSeconds(1)));

        Assert.False(endedEarly);
        var reasons = await Task.WhenAll(crowd.Clients.Select(client => server.EndOf(client.Connection))).WithinDeadline();
        Assert.All(reasons, reason => Assert.Equal(DisconnectReason.Stopped, reason));
        var counted = await server.Transport.WhenItAddsUpAsync();
        Assert.InRange(counted.DroppedClosedMessages, 3, 3 * (MessagesEach + 1));
        Assert.Equal((0, 0L), (counted.Connections, counted.PendingMessages));
        await crowd.LeaveAsync();
    }

    private static async Task WriteAsync(HoldServer server, int messages)
    {
        for (var message = 0; message < messages; message++)
            server.Output.Write(Crowd.Hall, $"{message} ".PadRight(999, '.') + "\n");
        await server.Output.FlushAsync().WithinDeadline();
    }

    private static void AssertGotAll(CrowdClient client)
    {
        var lines = client.Lines.All;
        Assert.Equal(["last", "goodbye"], lines[MessagesEach..]);
        Assert.Equal(Enumerable.Range(0, MessagesEach), lines[..MessagesEach].Select(Broadcasts.NumberOf));
        if (client.Connection.Protocol == ClientProtocol.WebSocket)
            Assert.Equal(GoingAway, client.Socket.CloseCode);
    }

    private static void AssertNothingDropped(HoldServer server)
    {
        var counted = server.Transport.GetStatistics();
        counted.AssertAddsUp();
        Assert.Equal(Clients * (MessagesEach + 2), counted.SentMessages);
        Assert.Equal(counted.SentMessages, counted.AcceptedMessages);
    }
}
