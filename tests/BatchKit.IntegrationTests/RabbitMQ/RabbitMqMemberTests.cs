using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>A group's output goes to the nodes that have members of it, and to no other, and loses nothing that output to all nodes would deliver.</summary>
public sealed class RabbitMqMemberTests(RabbitMqFixture fixture)
{
    private const int Rounds = 200;

    [Fact]
    public async Task A_new_member_gets_what_its_writer_writes_to_the_group_behind_the_join()
    {
        var options = await OptionsAsync();
        await using var scene = await MemberScene.StartAsync(options, nodes: 2);
        var members = new List<(Member Member, int Round)>();

        for (var round = 0; round < Rounds; round++)
        {
            var member = scene.Nodes[round % 2].Connect();
            var group = OutputHandle.Named($"room-{round}");
            scene.Output.Write(member.Handle, ControlMessage.JoinGroup(group.Name!));
            scene.Write(group, $"first in {round}");
            if (round % 3 == 0)
                await scene.Output.FlushAsync().WithinDeadline();
            scene.Write(group, $"second in {round}");
            members.Add((member, round));
        }

        await scene.Output.FlushAsync().WithinDeadline();
        foreach (var (member, round) in members)
            await member.AssertLinesAsync($"first in {round}", $"second in {round}");
    }

    [Fact]
    public async Task Nodes_without_members_get_nothing()
    {
        var options = await OptionsAsync();
        await using var scene = await MemberScene.StartAsync(options, nodes: 4);
        var (group, member) = (Some.Group(), scene.Nodes[0].Connect());
        scene.Output.Write(member.Handle, ControlMessage.JoinGroup(group.Name!));
        await scene.Output.FlushAsync().WithinDeadline();
        await scene.Nodes[3].Receiver.StopAsync(CancellationToken.None);

        for (var line = 0; line < 50; line++)
        {
            scene.Write(group, $"line {line}");
            scene.Write(Some.Group(), "to a group without members anywhere");
        }

        await scene.Output.FlushAsync().WithinDeadline();
        await member.AssertLinesAsync(Some.Lines(50));
        Assert.Equal([0L, 0L], scene.Nodes[1..3].Select(static node => node.Frames));
        await using var probe = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        Assert.Equal(0u, await probe.CountAsync(scene.Nodes[3].Receiver.Queue));
    }

    [Fact]
    public async Task A_member_that_leaves_and_joins_again_misses_nothing_between_a_join_and_a_leave()
    {
        var options = await OptionsAsync();
        await using var scene = await MemberScene.StartAsync(options, nodes: 2);
        var (group, member) = (Some.Group(), scene.Nodes[1].Connect());

        for (var round = 0; round < Rounds; round++)
        {
            scene.Output.Write(member.Handle, ControlMessage.JoinGroup(group.Name!));
            scene.Write(group, $"line {round}");
            scene.Output.Write(member.Handle, ControlMessage.LeaveGroup(group.Name!));
            scene.Write(group, "not for this member");
            if (round % 5 == 0)
                await scene.Output.FlushAsync().WithinDeadline();
        }

        await scene.Output.FlushAsync().WithinDeadline();
        await member.AssertLinesAsync(Some.Lines(Rounds));
    }

    [Fact]
    public async Task No_send_waits_for_groups_that_a_receiver_without_a_connection_does_not_bind()
    {
        await using var node = await MemberNode.StartAsync(await OptionsAsync(), node: 1);
        await node.WhenBoundAsync();
        await node.Receiver.StopAsync(CancellationToken.None).WithinDeadline();

        var join = new BatchMessage(ControlMessage.JoinGroup("room").ToPayload(), MessageHeader.Control);
        await node.Clients.SendAsync(new[] { MessageBatch.Create(node.Connect().Handle, Some.Producer(), 1, join) }, CancellationToken.None);

        Assert.True(node.Receiver.Groups!.WhenBoundAsync(CancellationToken.None).IsCompleted);
    }

    [Fact]
    public async Task A_group_is_unbound_when_its_last_member_has_left()
    {
        var options = await OptionsAsync();
        await using var scene = await MemberScene.StartAsync(options, nodes: 2);
        var (group, member, end) = (Some.Group(), scene.Nodes[1].Connect(), scene.Nodes[1].Connect());
        scene.Output.Write(member.Handle, ControlMessage.JoinGroup(group.Name!));
        scene.Write(group, "while it is a member");
        await scene.Output.FlushAsync().WithinDeadline();
        await member.AssertLinesAsync("while it is a member");

        scene.Output.Write(member.Handle, ControlMessage.LeaveGroup(group.Name!));
        await scene.Output.FlushAsync().WithinDeadline();

        await scene.WaitForSilenceAsync(scene.Nodes[1], group, end);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    public async Task Any_sequence_delivers_what_output_to_all_nodes_delivers(int seed)
    {
        var byMembers = await RunAsync(await OptionsAsync(), seed);
        var toAll = await RunAsync(await OptionsAsync(options => options.RouteGroupsByMembers = false), seed);

        Assert.Equal(toAll.Expected, byMembers.Expected);
        Assert.Equal(toAll.Expected, toAll.Arrived);
        Assert.Equal(byMembers.Expected, byMembers.Arrived);
    }

    [Fact]
    public async Task Names_of_any_kind_are_groups()
    {
        var options = await OptionsAsync();
        await using var scene = await MemberScene.StartAsync(options, nodes: 2);
        string[] names = ["all", "every", "0", "1", "reply.1", "#", "*", "a b", "\0", "\r\n", "ä", "\ufffd", new string('x', 100), new string('x', 101), new string('y', OutputHandle.MaxNameBytes), new string('€', 20_000)];
        var members = Array.ConvertAll(names, _ => scene.Nodes[1].Connect());
        for (var index = 0; index < names.Length; index++)
            scene.Output.Write(members[index].Handle, ControlMessage.JoinGroup(names[index]));
        await scene.Output.FlushAsync().WithinDeadline();

        for (var index = 0; index < names.Length; index++)
            scene.Write(OutputHandle.Named(names[index]), $"to name {index}");

        await scene.Output.FlushAsync().WithinDeadline();
        for (var index = 0; index < names.Length; index++)
            await members[index].AssertLinesAsync($"to name {index}");
        Assert.Equal(0, scene.Nodes[0].Frames);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Senders_and_receivers_with_and_without_the_option_reach_each_other(bool byMembers)
    {
        var options = await OptionsAsync(options => options.RouteGroupsByMembers = byMembers);
        var others = await OptionsAsync(other => (other.Prefix, other.RouteGroupsByMembers) = (options.Prefix, !byMembers));
        await using var scene = await MemberScene.StartAsync(options, nodes: 1, bindsAtOnce: byMembers);
        await using var other = await MemberNode.StartAsync(others, node: 1);
        await using var otherTransport = new RabbitMqTransport(others);
        await using var otherOutput = new OutputBuffer(otherTransport, new OutputBufferOptions { Node = OutputHandle.MaxNode - 1 });
        var (group, members) = (Some.Group(), new[] { scene.Nodes[0].Connect(), other.Connect() });

        foreach (var member in members)
            scene.Output.Write(member.Handle, ControlMessage.JoinGroup(group.Name!));
        scene.Write(group, "from one");
        await scene.Output.FlushAsync().WithinDeadline();
        await members[0].AssertLinesAsync("from one");
        await members[1].AssertLinesAsync("from one");
        await Until.TrueAsync(() => byMembers || !other.Receiver.Groups!.TakesAll);
        otherOutput.Write(group, "from the other\n"u8);
        await otherOutput.FlushAsync().WithinDeadline();

        await members[0].AssertLinesAsync("from one", "from the other");
        await members[1].AssertLinesAsync("from one", "from the other");
    }

    [Fact]
    public async Task A_given_queue_gets_the_output_of_all_groups()
    {
        var options = await OptionsAsync();
        var given = await OptionsAsync(given => (given.Prefix, given.DeclareTopology) = (options.Prefix, false));
        await using var probe = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        await probe.DeclareQueueAsync(given, $"{given.Prefix}.node.1", "1", new(StringComparer.Ordinal) { ["x-single-active-consumer"] = true });
        await using var scene = await MemberScene.StartAsync(options, nodes: 1);
        await using var node = await MemberNode.StartAsync(given, node: 1);
        var (group, member) = (Some.Group(), node.Connect());

        scene.Output.Write(member.Handle, ControlMessage.JoinGroup(group.Name!));
        for (var line = 0; line < 20; line++)
            scene.Write(group, $"line {line}");
        await scene.Output.FlushAsync().WithinDeadline();

        await member.AssertLinesAsync(Some.Lines(20));
    }

    [Fact]
    public async Task What_a_process_that_has_ended_had_bound_is_bound_no_more_when_its_node_starts_again()
    {
        var options = await OptionsAsync();
        await using var scene = await MemberScene.StartAsync(options, nodes: 1);
        var group = Some.Group();
        await using (var ended = await MemberNode.StartAsync(options, node: 1))
        {
            await ended.WhenBoundAsync();
            var member = ended.Connect();
            scene.Output.Write(member.Handle, ControlMessage.JoinGroup(group.Name!));
            scene.Write(group, "bound");
            await scene.Output.FlushAsync().WithinDeadline();
            await member.AssertLinesAsync("bound");
        }

        scene.Write(group, "to the queue that is left");
        await scene.Output.FlushAsync().WithinDeadline();
        await using var node = await MemberNode.StartAsync(options, node: 1);
        await node.WhenBoundAsync();

        await scene.WaitForSilenceAsync(node, group, node.Connect());
    }

    [Fact]
    public async Task Groups_are_bound_again_after_someone_has_deleted_the_exchange()
    {
        var options = await OptionsAsync(static options => (options.TopologyCheckInterval, options.UnroutableGrace) = (TimeSpan.FromMilliseconds(200), TimeSpan.FromSeconds(1)));
        await using var probe = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        await using var scene = await MemberScene.StartAsync(options, nodes: 2);
        var (group, member, end) = (Some.Group(), scene.Nodes[0].Connect(), scene.Nodes[1].Connect());
        scene.Output.Write(member.Handle, ControlMessage.JoinGroup(group.Name!));
        await scene.WaitForSilenceAsync(scene.Nodes[1], group, end);

        await probe.DeleteExchangeAsync(options);

        // Each node binds at its own next check.
        await Until.TrueAsync(() => scene.TryReachAsync(group, member));
        await Until.TrueAsync(() => scene.TryReachAsync(end.Handle, end));
        await scene.WaitForSilenceAsync(scene.Nodes[1], group, end);
        scene.Write(group, "bound again");
        await scene.Output.FlushAsync().WithinDeadline();
        await Until.TrueAsync(() => member.Lines[^1] == "bound again");
    }

    [Fact]
    public async Task An_answer_to_a_group_that_a_gateway_let_a_client_join_itself_reaches_the_client()
    {
        var options = await OptionsAsync(static options => options.DestinationNode = null);
        await using var gateway = await GatewayHost.StartAsync(options, node: 1, game: 2);
        await using var game = await AnsweringGame.StartAsync(options, node: 2);
        await gateway.WhenBoundAsync();
        var members = new List<Member>();

        for (var round = 0; round < Rounds; round++)
        {
            var member = gateway.Connect();
            gateway.Output.Write(member.Handle, ControlMessage.JoinGroup($"room-{round}"));
            gateway.Output.Write(OutputHandle.Connection(2, 1), Some.Bytes($"room-{round}"));
            members.Add(member);
        }

        for (var round = 0; round < Rounds; round++)
            await members[round].AssertLinesAsync($"answer to room-{round}");
    }

    private async Task<RabbitMqOptions> OptionsAsync(Action<RabbitMqOptions>? configure = null)
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync(), MemberNode.KnowsAtOnce);
        configure?.Invoke(options);
        return options;
    }

    /// <summary>Runs a random sequence of joins, leaves and writes, and returns what each client should have and has.</summary>
    private static async Task<(IReadOnlyList<string> Expected, IReadOnlyList<string> Arrived)> RunAsync(RabbitMqOptions options, int seed)
    {
        const int clients = 12;
        const int steps = 1500;
        await using var scene = await MemberScene.StartAsync(options, nodes: 3, bindsAtOnce: options.RouteGroupsByMembers);
        var members = Enumerable.Range(0, clients).Select(client => scene.Nodes[client % 3].Connect()).ToArray();
        var model = new MemberModel(scene, members, new Random(seed));

        for (var step = 0; step < steps; step++)
            await model.StepAsync(step);

        await scene.Output.FlushAsync().WithinDeadline();
        for (var client = 0; client < clients; client++)
            await Until.TrueAsync(() => members[client].Lines.Count >= model.Expected[client].Count);
        return ([.. model.Expected.Select(static lines => string.Join('|', lines))], [.. members.Select(static member => string.Join('|', member.Lines))]);
    }

    /// <summary>Knows what each client gets, because one buffer writes everything.</summary>
    private sealed class MemberModel(MemberScene scene, Member[] members, Random random)
    {
        private readonly OutputHandle[] _groups = [.. Enumerable.Range(0, 8).Select(static group => OutputHandle.Named($"room {group}"))];
        private readonly HashSet<(int Client, int Group)> _joined = [];

        public List<string>[] Expected { get; } = Array.ConvertAll(members, static _ => new List<string>());

        public async Task StepAsync(int step)
        {
            var (client, group) = (random.Next(members.Length), random.Next(_groups.Length));
            switch (random.Next(10))
            {
                case < 2:
                    scene.Output.Write(members[client].Handle, ControlMessage.JoinGroup(_groups[group].Name!));
                    _joined.Add((client, group));
                    break;
                case < 4:
                    scene.Output.Write(members[client].Handle, ControlMessage.LeaveGroup(_groups[group].Name!));
                    _joined.Remove((client, group));
                    break;
                case 4:
                    scene.Write(members[client].Handle, $"{step} alone");
                    Expected[client].Add($"{step} alone");
                    break;
                case 5 when random.Next(10) == 0:
                    await scene.Output.FlushAsync().WithinDeadline();
                    break;
                default:
                    scene.Write(_groups[group], $"{step} to {group}");
                    foreach (var (other, _) in _joined.Where(joined => joined.Group == group))
                        Expected[other].Add($"{step} to {group}");
                    break;
            }
        }
    }
}
