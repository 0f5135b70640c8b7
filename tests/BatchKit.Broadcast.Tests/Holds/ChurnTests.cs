using System.Collections.Concurrent;
using BatchKit.Broadcast.Tests.Support;

namespace BatchKit.Broadcast.Tests.Holds;

[Collection(HoldCollection.Name)]
[Trait("Lane", "faults: a load lasts for seconds")]
public sealed class ChurnTests(ITestOutputHelper report)
{
    private const int Clients = 1000;
    private const int Churners = 2;
    private const int WritesPerSecond = 100;
    private const int JoinsPerSecond = 1000;

    private readonly MessageStreams _streams = new();
    private readonly ConcurrentQueue<string> _offences = new();

    [Fact]
    public async Task Order_holds_and_nothing_is_lost_or_doubled_while_clients_join_and_leave()
    {
        using var unobserved = new UnobservedExceptions();
        var server = await HoldServer.StartAsync();
        var clients = await Task.WhenAll(Enumerable.Range(0, Clients).Select(number => ConnectAsync(server, number)));
        await server.Output.FlushAsync().WithinDeadline();

        var came = await LoadAsync(server, clients);
        await EndAsync(server, clients);

        Assert.Empty(_offences);
        await AssertAllGoneAsync(server, clients, came);
        await server.DisposeAsync();
        Assert.Equal((0, 0), (server.Transport.Connections.Places, server.Transport.Connections.Addresses));
        server.Transport.GetStatistics().AssertAddsUp();
        Assert.Empty(unobserved.Collect());
    }

    private async Task<HoldClient> ConnectAsync(HoldServer server, int number)
    {
        var protocol = (number % 3) switch { 0 => ClientProtocol.Tcp, 1 => ClientProtocol.Telnet, _ => ClientProtocol.WebSocket };
        var log = new MemberLog($"Client {number} ({protocol})", _offences);
        var (socket, connection) = await server.ConnectAsync(number, protocol, log.Take);
        int[] stays = [number % 200, (number + 67) % 200, (number + 134) % 200, .. MessageStreams.ForEverybody];
        foreach (var stream in stays)
        {
            var membership = new Membership(stream);
            membership.MustBeginAt(1);
            log.Announce(membership);
            server.Output.Write(connection.Handle, $"join {stream}\n");
            server.Output.Write(connection.Handle, ControlMessage.JoinGroup(MessageStreams.GroupOf(stream)));
        }

        return new HoldClient(socket, connection, log) { Stays = stays };
    }

    /// <returns>Who came and went meanwhile.</returns>
    private async Task<IReadOnlyList<ClientConnection>> LoadAsync(HoldServer server, HoldClient[] clients)
    {
        using var stopping = new CancellationTokenSource();
        var comers = new Comers(server, Clients);
        var coming = Task.Run(() => comers.RunAsync(stopping.Token));
        var writing = Enumerable.Range(0, MessageStreams.Writers)
            .Select(number => new GroupWriter(server.Output, _streams, number))
            .Select(writer => Task.Run(() => Pace.RunAsync(server.Output, WritesPerSecond, long.MaxValue, writer.Write, stopping.Token))).ToArray();
        var churners = Enumerable.Range(0, Churners)
            .Select(churner => new Churner(server.Output, _streams, [.. clients.Where((_, place) => place % Churners == churner)], churner)).ToArray();

        const int perChurner = JoinsPerSecond / Churners;
        await Task.WhenAll(churners.Select(churner => Task.Run(() => Pace.RunAsync(server.Output, perChurner, perChurner * TestSeconds.Value, churner.Turn, CancellationToken.None))));
        await stopping.CancelAsync();
        await Task.WhenAll(writing).WithinDeadline();
        await coming.WithinDeadline();
        foreach (var churner in churners)
            churner.LeaveAll();

        Assert.Equal(JoinsPerSecond * TestSeconds.Value, churners.Sum(churner => churner.Joins));
        Assert.Equal(JoinsPerSecond * TestSeconds.Value, churners.Sum(churner => churner.Leaves));
        return comers.Came;
    }

    /// <summary>Tells everybody that nothing more comes, and waits until they have read it.</summary>
    private async Task EndAsync(HoldServer server, HoldClient[] clients)
    {
        foreach (var client in clients)
        {
            client.Log.EndsWith(_streams);
            server.Output.Write(client.Handle, "end\n");
        }

        await server.Output.FlushAsync().WithinDeadline();
        await Task.WhenAny(Task.WhenAll(clients.Select(client => client.Log.Ended)), Task.WhenAny(clients.Select(client => client.Socket.Ended))).WithinDeadline();
        var counted = await server.Transport.WhenItAddsUpAsync();
        Assert.All(clients, client => Assert.True(client.Log.Ended.IsCompletedSuccessfully));
        report.WriteLine($"{_streams.Total} messages for groups, {clients.Sum(client => client.Log.Messages)} deliveries checked in {TestSeconds.Value} s; "
            + $"{counted.AcceptedMessages} accepted, {counted.SentMessages} sent, {counted.DroppedClosedMessages} dropped at closed connections, {counted.FailedMessages} failed.");
    }

    private static async Task AssertAllGoneAsync(HoldServer server, HoldClient[] clients, IReadOnlyList<ClientConnection> came)
    {
        foreach (var (client, place) in clients.Select((client, place) => (client, place)))
        {
            if (place % 2 == 0)
                client.Socket.Finish();
            else
                await client.Socket.DisposeAsync();
        }

        await Task.WhenAll(clients.Select(client => client.Connection).Concat(came).Select(server.EndOf)).WithinDeadline();
        await Task.WhenAll(clients.Select(client => client.Socket.DisposeAsync().AsTask()));
        var counted = server.Transport.GetStatistics();
        Assert.Equal((0, 0, 0L, 0L), (counted.Connections, counted.Groups, counted.PendingMessages, counted.PendingBytes));
        server.BufferClock.Advance(TimeSpan.FromMinutes(5));
        var buffered = server.Output.GetStatistics();
        Assert.Equal((0, 0, 0L, 0L), (buffered.LiveHandles, buffered.OpenScopes, buffered.PendingMessages, buffered.BufferedBytes));
        Assert.Equal(buffered.AcceptedMessages, buffered.AcknowledgedMessages + buffered.FailedMessages);
    }
}
