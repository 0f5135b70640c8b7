using BatchKit.RabbitMQ;
using BatchKit.Testing;
using RabbitMQ.Client;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>Output for several groups is one message, whose key list names them.</summary>
public sealed class RabbitMqKeyListTests(RabbitMqFixture fixture)
{
    [Fact]
    public async Task A_send_to_several_groups_is_one_message_that_each_node_with_members_gets_once()
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync(), MemberNode.KnowsAtOnce);
        await using var scene = await MemberScene.StartAsync(options, nodes: 3);
        var (first, second) = (scene.Nodes[0].Connect(), scene.Nodes[1].Connect());
        var (hall, cave, mine) = (Some.Group(), Some.Group(), Some.Group());
        foreach (var (member, group) in new[] { (first, hall), (first, cave), (second, cave), (second, mine) })
            scene.Output.Write(member.Handle, ControlMessage.JoinGroup(group.Name!));
        await scene.Output.FlushAsync().WithinDeadline();
        // Until the nodes have confirmed the joins, they are named in each message.
        await scene.WaitForSilenceAsync(scene.Nodes[1], hall, second);
        await scene.WaitForSilenceAsync(scene.Nodes[0], mine, first);
        await scene.CatchUpAsync(second);
        var (firstLines, secondLines) = (first.Lines.Count, second.Lines.Count);
        var before = Array.ConvertAll(scene.Nodes, static node => node.Frames);

        using (scene.Output.BeginBufferingScope())
        {
            scene.Write(hall, "to the hall");
            scene.Write(cave, "to the cave");
            scene.Write(mine, "to the mine");
            scene.Write(Some.Group(), "to no one");
        }

        await scene.Output.FlushAsync().WithinDeadline();
        await Until.TrueAsync(() => first.Lines.Count >= firstLines + 2 && second.Lines.Count >= secondLines + 2);
        Assert.Equal(["to the hall", "to the cave"], first.Lines.Skip(firstLines));
        Assert.Equal(["to the cave", "to the mine"], second.Lines.Skip(secondLines));
        Assert.Equal([1L, 1L, 0L], scene.Nodes.Select((node, index) => node.Frames - before[index]));
    }

    [Fact]
    public async Task Names_of_groups_that_exceed_the_connections_frame_reach_their_members_by_the_key_of_all_nodes()
    {
        const int groups = 250;
        // AMQP's smallest.
        var factory = new ConnectionFactory { Uri = (await fixture.GetAsync()).Address, RequestedFrameMax = 4096 };
        var options = new RabbitMqOptions { ConnectionFactory = factory, Prefix = Some.Name("test") };
        MemberNode.KnowsAtOnce(options);
        await using var scene = await MemberScene.StartAsync(options, nodes: 2);
        var member = scene.Nodes[0].Connect();
        var rooms = Enumerable.Range(0, groups).Select(static room => OutputHandle.Named($"{room:000}{new string('x', 90)}")).ToArray();
        foreach (var room in rooms)
            scene.Output.Write(member.Handle, ControlMessage.JoinGroup(room.Name!));
        await scene.Output.FlushAsync().WithinDeadline();

        using (scene.Output.BeginBufferingScope())
        {
            foreach (var room in rooms)
                scene.Write(room, $"to {room.Name![..3]}");
        }

        await scene.Output.FlushAsync().WithinDeadline();
        await member.AssertLinesAsync([.. Enumerable.Range(0, groups).Select(static room => $"to {room:000}")]);
        Assert.Equal(0, scene.Output.GetStatistics().FailedSends);
    }
}
