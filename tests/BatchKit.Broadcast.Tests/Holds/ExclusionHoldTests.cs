using BatchKit.Broadcast.Tests.Support;
using BatchKit.Transports;

namespace BatchKit.Broadcast.Tests.Holds;

[Collection(HoldCollection.Name)]
public sealed class ExclusionHoldTests
{
    private const int Clients = 60;

    [Theory]
    [InlineData(1)]
    [InlineData(7)]
    [InlineData(20)]
    [InlineData(Clients)]
    public async Task Who_is_excluded_gets_the_lines_around_only(int excluded)
    {
        await using var server = await HoldServer.StartAsync();
        var crowd = await Crowd.ConnectAsync(server, Clients, small: 0);
        await crowd.JoinAsync(crowd.Clients);
        var handles = crowd.Clients.Take(excluded).Select(client => client.Handle).ToArray();

        using (server.Output.BeginBufferingScope(Crowd.Hall))
        {
            server.Output.Write(Crowd.Hall, "before\n");
            server.Output.Write(Crowd.Hall, "secret\n", new MessageHeader { ExcludedConnections = [.. handles] });
            server.Output.Write(Crowd.Hall, "after\n");
        }

        await crowd.EndAsync(crowd.Clients);
        Assert.All(crowd.Clients.Take(excluded), client => Assert.Equal(["before", "after", "end"], client.Lines.All));
        Assert.All(crowd.Clients.Skip(excluded), client => Assert.Equal(["before", "secret", "after", "end"], client.Lines.All));
        var counted = await server.Transport.WhenItAddsUpAsync();
        Assert.Equal((4 * Clients) - excluded, counted.SentMessages);
        await crowd.LeaveAsync();
    }

    [Fact]
    public async Task One_that_has_left_is_excluded_without_harm()
    {
        await using var server = await HoldServer.StartAsync();
        var crowd = await Crowd.ConnectAsync(server, 4, small: 0);
        await crowd.JoinAsync(crowd.Clients);
        await crowd.Clients[1].Socket.DisposeAsync();
        await server.EndOf(crowd.Clients[1].Connection).WithinDeadline();

        server.Output.Write(Crowd.Hall, "hello\n", new MessageHeader { ExcludedConnections = [crowd.Clients[1].Handle, crowd.Clients[2].Handle] });

        await crowd.EndAsync([crowd.Clients[0], crowd.Clients[2], crowd.Clients[3]]);
        Assert.Equal(["hello", "end"], crowd.Clients[0].Lines.All);
        Assert.Equal(["end"], crowd.Clients[2].Lines.All);
        Assert.Equal(["hello", "end"], crowd.Clients[3].Lines.All);
        await crowd.LeaveAsync();
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(2)]
    public async Task The_sender_is_excluded_over_a_broker_on_its_own_node_and_nobody_on_the_other(int sender)
    {
        await using var here = await HoldServer.StartAsync(node: 1);
        await using var elsewhere = await HoldServer.StartAsync(node: 2);
        await using var broker = new InMemoryTransport(elsewhere.Transport);
        OutputRoute[] routes = [new(LocalFirstRouter.LocalRoute, here.Transport), new(LocalFirstRouter.RemoteRoute, broker)];
        await using var game = new OutputBuffer(routes, new LocalFirstRouter(1), new OutputBufferOptions { Node = 1 });
        var (crowdHere, crowdThere) = (await Crowd.ConnectAsync(here, 9, small: 0), await Crowd.ConnectAsync(elsewhere, 9, small: 0));
        await crowdHere.JoinAsync(crowdHere.Clients);
        await crowdThere.JoinAsync(crowdThere.Clients);
        var speaker = crowdThere.Clients[sender];

        game.Write(Crowd.Hall, "somebody speaks\n", new MessageHeader { ExcludedConnections = [speaker.Handle] });
        game.Write(speaker.Handle, "you speak\n");
        await game.FlushAsync().WithinDeadline();

        await crowdHere.EndAsync(crowdHere.Clients);
        await crowdThere.EndAsync(crowdThere.Clients);
        Assert.Equal(["you speak", "end"], speaker.Lines.All);
        Assert.All(crowdHere.Clients.Concat(crowdThere.Clients).Except([speaker]), client => Assert.Equal(["somebody speaks", "end"], client.Lines.All));
        await crowdHere.LeaveAsync();
        await crowdThere.LeaveAsync();
    }
}
