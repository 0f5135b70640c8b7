using System.Diagnostics;
using System.Globalization;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.RabbitMQ;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>Groups that are bound by their members while the broker is killed, while it refuses the bindings, and in numbers.</summary>
[Trait("Lane", "faults: RabbitMQ is killed and cut again and again")]
public sealed class RabbitMqMemberFaultTests(OwnRabbitMqFixture fixture) : IClassFixture<OwnRabbitMqFixture>
{
    private const string Password = "secret-of-this-test";

    /// <summary>Set to 1, it has the tests of many groups run: they take a minute.</summary>
    private const string ManyVariable = "BATCHKIT_TEST_GROUPS";

    [Fact]
    public async Task Members_miss_nothing_though_the_broker_is_killed()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server, static options => (options.RouteGroupsByMembers, options.UnroutableGrace, options.ReconnectDelay) = (true, TimeSpan.FromSeconds(2), TimeSpan.FromMilliseconds(20)));
        await using var scene = await MemberScene.StartAsync(options, nodes: 3);
        var members = Enumerable.Range(0, 20).Select(member => (Member: scene.Nodes[member % 2].Connect(), Group: OutputHandle.Named($"room-{member}"))).ToArray();
        var end = scene.Nodes[2].Connect();
        foreach (var (member, group) in members[..^5])
            scene.Output.Write(member.Handle, ControlMessage.JoinGroup(group.Name!));
        await scene.WaitForSilenceAsync(scene.Nodes[2], Some.Group(), end);
        await server.SyncDeclarationsAsync();
        // Their bindings may not be on the broker's disk yet.
        foreach (var (member, group) in members[^5..])
            scene.Output.Write(member.Handle, ControlMessage.JoinGroup(group.Name!));
        await WriteLineAsync(scene, members, 0);

        await server.KillAsync();
        var whileDown = WriteLineAsync(scene, members, 1);
        await server.StartAsync();
        await whileDown;
        await WriteLineAsync(scene, members, 2);
        await scene.WaitForSilenceAsync(scene.Nodes[2], Some.Group(), end);
        await WriteLineAsync(scene, members, 3);

        foreach (var (member, _) in members)
            await member.AssertLinesAsync(Some.Lines(4));
    }

    [Theory]
    [InlineData("configure")]
    [InlineData("write")]
    public async Task A_receiver_that_may_not_bind_groups_gets_the_output_of_all(string missing)
    {
        var server = await fixture.GetAsync();
        var user = Some.Name("user");
        var options = RabbitMqSome.Options(server, MemberNode.KnowsAtOnce);
        var few = $@"^{options.Prefix}\.(direct|node\..*|lease\..*)$";
        await server.AddUserAsync(user, Password, missing == "configure" ? few : ".*", missing == "write" ? few : ".*");
        await using var scene = await MemberScene.StartAsync(options, nodes: 1, bindsAtOnce: false, gateways: options => (options.UserName, options.Password) = (user, Password));
        var (group, member) = (Some.Group(), scene.Nodes[0].Connect());
        await Until.TrueAsync(() => scene.Nodes[0].Receiver.Groups!.StaysOnAll);

        scene.Output.Write(member.Handle, ControlMessage.JoinGroup(group.Name!));
        for (var line = 0; line < 20; line++)
            scene.Write(group, $"line {line}");
        await scene.Output.FlushAsync().WithinDeadline();

        await member.AssertLinesAsync(Some.Lines(20));
        Assert.Null(scene.Nodes[0].Receiver.Fault);
        Assert.True(scene.Nodes[0].Receiver.Groups!.TakesAll);
    }

    [Fact]
    public async Task A_gateway_goes_on_receiving_while_the_broker_takes_no_messages()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server, static options => (options.RouteGroupsByMembers, options.Prefetch) = (true, 4));
        await using var scene = await MemberScene.StartAsync(options, nodes: 1);
        var (node, member) = (scene.Nodes[0], scene.Nodes[0].Connect());
        await node.Receiver.StopAsync(CancellationToken.None);
        for (var line = 0; line < 50; line++)
        {
            scene.Write(member.Handle, $"line {line}");
            await scene.Output.FlushAsync().WithinDeadline();
        }

        await server.SetDiskAlarmAsync(isOn: true);
        await using var receiver = new RabbitMqReceiver(options, node: 0, new BatchReceiver(node.Clients));
        try
        {
            await receiver.StartAsync(CancellationToken.None).WithinDeadline();
            await member.AssertLinesAsync(Some.Lines(50));
        }
        finally
        {
            await server.SetDiskAlarmAsync(isOn: false);
        }

        await Until.TrueAsync(() => !receiver.Groups!.TakesAll);
    }

    [Fact]
    public async Task Ten_thousand_groups_are_bound_and_are_bound_again_after_a_lost_connection()
    {
        const int groups = 10_000;
        SkipUnlessMany();
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var direct = RabbitMqSome.Options(server, MemberNode.KnowsAtOnce);
        await using var scene = await MemberScene.StartAsync(direct, nodes: 1, gateways: options => options.Hosts = [$"{server.Host}:{proxy.Port}"]);
        var (node, member) = (scene.Nodes[0], scene.Nodes[0].Connect());
        var names = Enumerable.Range(0, groups).Select(static group => OutputHandle.Named($"room-{group}")).ToArray();

        var began = Stopwatch.GetTimestamp();
        foreach (var name in names)
            scene.Output.Write(member.Handle, ControlMessage.JoinGroup(name.Name!));
        await WriteEachAsync(scene, names, member, expected: groups);
        await Until.TrueAsync(() => node.Clients.GetGroups().Count == groups && !node.Receiver.Groups!.TakesAll);
        Report($"{groups} groups joined and bound, with a line to each, in {Stopwatch.GetElapsedTime(began)}");
        proxy.ResetAll();
        await WriteEachAsync(scene, names, member, expected: 2 * groups);
        began = Stopwatch.GetTimestamp();
        await Until.TrueAsync(() => !node.Receiver.Groups!.TakesAll && node.Receiver.Fault is null);
        Report($"and again after a lost connection, at most {Stopwatch.GetElapsedTime(began)} behind another line to each");
        await WriteEachAsync(scene, names, member, expected: 3 * groups);
    }

    [Fact]
    public async Task A_thousand_joins_a_second_miss_nothing()
    {
        const int joins = 10_000;
        const int players = 200;
        SkipUnlessMany();
        var server = await fixture.GetAsync();
        await using var scene = await MemberScene.StartAsync(RabbitMqSome.Options(server, MemberNode.KnowsAtOnce), nodes: 4);
        var members = Enumerable.Range(0, players).Select(player => scene.Nodes[player % 4].Connect()).ToArray();
        var rooms = new int?[players];
        var random = new Random(1);

        var began = Stopwatch.GetTimestamp();
        for (var join = 0; join < joins; join++)
        {
            var player = join % players;
            if (rooms[player] is { } left)
                scene.Output.Write(members[player].Handle, ControlMessage.LeaveGroup(Text(player, left)));
            rooms[player] = random.Next(1_000);
            scene.Output.Write(members[player].Handle, ControlMessage.JoinGroup(Text(player, rooms[player]!.Value)));
            scene.Write(OutputHandle.Named(Text(player, rooms[player]!.Value)), $"line {join / players}");
            // A third of a second of them: a wait for the broker after each few would be what limits the rate.
            if (join % 400 == 0)
                await scene.Output.FlushAsync().WithinDeadline();
        }

        await scene.Output.FlushAsync().WithinDeadline();
        foreach (var member in members)
            await member.AssertLinesAsync(Some.Lines(joins / players));
        Report($"{joins / Stopwatch.GetElapsedTime(began).TotalSeconds:0} joins a second");
    }

    private static void SkipUnlessMany() => Assert.SkipUnless(Environment.GetEnvironmentVariable(ManyVariable) == "1", $"Tests of many groups run where {ManyVariable} is 1: they take a minute.");

    private static void Report(string line) => TestContext.Current.TestOutputHelper?.WriteLine(line);

    private static string Text(int player, int room) => string.Create(CultureInfo.InvariantCulture, $"room {player} {room}");

    private static async Task WriteLineAsync(MemberScene scene, (Member Member, OutputHandle Group)[] members, int line)
    {
        foreach (var (_, group) in members)
            scene.Write(group, $"line {line}");
        await scene.Output.FlushAsync().WithinDeadline();
    }

    private static async Task WriteEachAsync(MemberScene scene, OutputHandle[] groups, Member member, int expected)
    {
        foreach (var chunk in groups.Chunk(100))
        {
            foreach (var group in chunk)
                scene.Write(group, "line");
            await scene.Output.FlushAsync().WithinDeadline();
        }

        await Until.TrueAsync(() => member.Lines.Count >= expected);
        Assert.Equal(expected, member.Lines.Count);
    }
}
