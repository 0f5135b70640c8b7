using BatchKit.Broadcast.Tests.Support;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Holds;

[Collection(HoldCollection.Name)]
public sealed class SlowClientTests(ITestOutputHelper report)
{
    private const int Clients = 1000;
    private const int CapBytes = 32 * 1024;
    private const int BroadcastsBefore = 40;
    private const int BroadcastsDuring = 120;
    private const int First = BroadcastsBefore + 1;

    [Theory]
    [InlineData(SlowConsumerPolicy.DropNewest, 1)]
    [InlineData(SlowConsumerPolicy.DropNewest, 100)]
    [InlineData(SlowConsumerPolicy.DropOldest, 1)]
    [InlineData(SlowConsumerPolicy.DropOldest, 100)]
    public async Task Who_does_not_read_loses_the_newest_or_the_oldest_counted_exactly(SlowConsumerPolicy policy, int slow)
    {
        await using var server = await HoldServer.StartAsync(OptionsFor(policy));
        var crowd = await Crowd.ConnectAsync(server, Clients, slow);
        await BroadcastAsync(server, crowd, slow);

        var counted = await GoOnAsync(server, crowd, slow);

        var (lost, losesOldest) = (Lost(crowd, slow), policy == SlowConsumerPolicy.DropOldest);
        AssertCounts(counted, slow, droppedNewest: losesOldest ? 0 : lost, droppedOldest: losesOldest ? lost : 0);
        Assert.All(crowd.Clients.Take(slow), AssertInOrder);
        if (losesOldest)
            Assert.All(crowd.Clients.Take(slow), client => Assert.Equal(BroadcastsBefore + BroadcastsDuring, NumbersOf(client)[^1]));
        await crowd.LeaveAsync();
        await server.Transport.WhenItAddsUpAsync();
    }

    [Theory]
    [InlineData(1)]
    [InlineData(100)]
    public async Task Who_does_not_read_is_disconnected_as_soon_as_the_cap_is_reached(int slow)
    {
        await using var server = await HoldServer.StartAsync(OptionsFor(SlowConsumerPolicy.Disconnect));
        var crowd = await Crowd.ConnectAsync(server, Clients, slow);

        await BroadcastAsync(server, crowd, slow);
        var reasons = await Task.WhenAll(crowd.Clients.Take(slow).Select(client => server.EndOf(client.Connection))).WithinDeadline();

        Assert.All(reasons, reason => Assert.Equal(DisconnectReason.SlowConsumer, reason));
        var counted = await server.Transport.WhenItAddsUpAsync();
        Assert.Equal((slow, Clients - slow), (counted.SlowConsumerDisconnects, counted.Connections));
        Assert.Equal(counted.AcceptedMessages - counted.SentMessages, counted.DroppedSlowConsumerMessages);
        Assert.InRange(counted.DroppedSlowConsumerMessages, slow, slow * BroadcastsDuring);
        Assert.Equal(Clients - slow, server.Transport.GetMembers(Crowd.Hall.Name!).Count);
        await crowd.LeaveAsync();
    }

    [Theory]
    [InlineData(ClientProtocol.Tcp)]
    [InlineData(ClientProtocol.Telnet)]
    [InlineData(ClientProtocol.WebSocket)]
    public async Task Who_takes_nothing_for_the_time_limit_is_disconnected_and_not_before(ClientProtocol protocol)
    {
        var clock = new ManualTimeProvider();
        await using var server = await HoldServer.StartAsync(new BroadcastOptions { SlowConsumer = SlowConsumerPolicy.DropNewest }, clock);
        var (client, connection) = await server.ConnectAsync(1, protocol, _ => { }, isSmall: true);
        client.StopReading();
        for (var write = 0; write < 20; write++)
            server.Output.Write(connection.Handle, new string('x', 10_000) + "\n");
        await server.Output.FlushAsync().WithinDeadline();

        clock.Advance(TimeSpan.FromSeconds(29));
        var wasEnded = connection.Closing.IsCompleted;

        // The kernel may still have taken a last piece: the limit counts from there.
        var ended = server.EndOf(connection);
        await ended.WhileAdvancing(() => clock.Advance(TimeSpan.FromSeconds(1)));

        Assert.False(wasEnded);
        Assert.Equal(DisconnectReason.SlowConsumer, await ended);
        await server.Transport.WhenItAddsUpAsync();
        Assert.InRange(server.Transport.GetStatistics().DroppedSlowConsumerMessages, 1, 20);
        await client.DisposeAsync();
    }

    private static BroadcastOptions OptionsFor(SlowConsumerPolicy policy) => new() { MaxQueuedBytes = CapBytes, SlowConsumer = policy };

    /// <summary>Broadcasts to the others alone, then also to those that do not read, and checks that the others get everything and the queues keep within their caps.</summary>
    private async Task BroadcastAsync(HoldServer server, Crowd crowd, int slow)
    {
        var (broadcasts, idle, others) = (new Broadcasts(server), crowd.Clients.Take(slow).ToArray(), crowd.Clients.Skip(slow).ToArray());
        await crowd.JoinAsync(others);
        for (var broadcast = 0; broadcast < BroadcastsBefore; broadcast++)
            await broadcasts.WriteAsync();
        await Task.WhenAll(others.Select(client => client.Lines.WaitForAsync(BroadcastsBefore))).WithinDeadline();
        foreach (var client in idle)
            client.Socket.StopReading();
        await crowd.JoinAsync(idle);
        for (var broadcast = 0; broadcast < BroadcastsDuring; broadcast++)
        {
            await broadcasts.WriteAsync();
            Assert.All(idle, client => Assert.InRange(client.Connection.Output.HeldBytes, 0, CapBytes));
        }

        await Task.WhenAll(others.Select(client => client.Lines.WaitForAsync(broadcasts.Count))).WithinDeadline();
        Assert.All(others, client => Assert.Equal(Enumerable.Range(1, broadcasts.Count), NumbersOf(client)));
        await server.Transport.WhenItAddsUpAsync();
        report.WriteLine($"{slow} of {Clients} do not read: the others' p99 is {broadcasts.P99Milliseconds(others, BroadcastsBefore + 1, broadcasts.Count):F1} ms, "
            + $"alone it was {broadcasts.P99Milliseconds(others, 1, BroadcastsBefore):F1} ms.");
    }

    /// <summary>Lets the slow ones read all that was kept for them.</summary>
    private static async Task<BroadcastStatistics> GoOnAsync(HoldServer server, Crowd crowd, int slow)
    {
        var stuck = server.Transport.GetStatistics();
        Assert.InRange(stuck.PendingMessages, slow, slow * CapBytes);
        foreach (var client in crowd.Clients.Take(slow))
            client.Socket.GoOnReading();
        await server.Transport.WhenItAddsUpAsync(counted => counted.PendingMessages == 0);
        await crowd.EndAsync(crowd.Clients.Take(slow));
        return await server.Transport.WhenItAddsUpAsync();
    }

    private static void AssertCounts(BroadcastStatistics counted, int slow, long droppedNewest, long droppedOldest)
    {
        counted.AssertAddsUp();
        Assert.Equal(((Clients - slow) * BroadcastsBefore) + (Clients * BroadcastsDuring) + slow, counted.AcceptedMessages);
        Assert.Equal((droppedNewest, droppedOldest, 0L, 0L), (counted.DroppedNewestMessages, counted.DroppedOldestMessages, counted.FailedMessages, counted.PendingMessages));
        Assert.InRange(droppedNewest + droppedOldest, slow, long.MaxValue);
    }

    /// <summary>What it got begins with the first, and has gaps only: nothing is doubled or in disorder.</summary>
    private static void AssertInOrder(CrowdClient client)
    {
        var numbers = NumbersOf(client);
        Assert.Equal(First, numbers[0]);
        Assert.Equal(numbers.Order().Distinct(), numbers);
    }

    private static long Lost(Crowd crowd, int slow) =>
        crowd.Clients.Take(slow).Sum(client => (long)BroadcastsDuring - NumbersOf(client).Length);

    private static int[] NumbersOf(CrowdClient client) => [.. client.Lines.All.Where(line => line != "end").Select(Broadcasts.NumberOf)];
}
