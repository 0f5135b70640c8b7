using System.Diagnostics;
using System.Globalization;
using BatchKit.Benchmarks.Brokers;
using BatchKit.Benchmarks.Children;
using BatchKit.RabbitMQ;

namespace BatchKit.Benchmarks.Groups;

/// <summary>A game and its gateways, each of these a process. Every room has ten members, five on each of two gateways.</summary>
internal sealed class GroupStage : IAsyncDisposable
{
    public const int Gateways = 8;
    public const int RoomsOfTick = 20;
    public const int LinesOfRoom = 5;
    public const int LineBytes = 80;

    private const int MembersOnGateway = 5;
    private const int GameNode = 1000;

    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(60);

    private readonly int _rooms;
    private readonly byte[] _line = [.. Enumerable.Repeat((byte)'x', LineBytes)];
    private readonly ChildProcess[] _gateways;
    private readonly RabbitMqTransport _transport;
    private readonly OutputBuffer _output;
    private readonly (OutputHandle Group, OutputHandle[] Nodes)[] _targets;

    private GroupStage(int rooms, ChildProcess[] gateways, RabbitMqTransport transport)
    {
        _rooms = rooms;
        _gateways = gateways;
        _transport = transport;
        _output = new OutputBuffer(transport, new OutputBufferOptions { Node = GameNode });
        _targets = new (OutputHandle, OutputHandle[])[rooms];
    }

    public static async Task<GroupStage> StartAsync(bool byMembers, int rooms)
    {
        var address = await Broker.GetRabbitMqAsync();
        var broker = BrokerAddress.From(address);
        var prefix = $"groups-{Guid.NewGuid():n}";
        var clients = 2 * MembersOnGateway * rooms / Gateways;
        var gateways = Enumerable.Range(0, Gateways).Select(node => ChildProcess.Start("gateway", Text(node), Text(clients), prefix, $"{byMembers}")).ToArray();
        var options = new RabbitMqOptions
        {
            Hosts = [broker.Host],
            UserName = broker.UserName,
            Password = broker.Password,
            VirtualHost = broker.VirtualHost,
            Prefix = prefix,
            RouteGroupsByMembers = byMembers,
            UnroutableGrace = TimeSpan.Zero,
        };
        var stage = new GroupStage(rooms, gateways, new RabbitMqTransport(options));
        foreach (var gateway in gateways)
            gateway.Write($"{address}");
        await stage.FillAsync([.. gateways.Select(static gateway => gateway.Read()[0])]);
        return stage;
    }

    /// <summary>Writes some lines to each room, and counts what the gateways get of them.</summary>
    /// <param name="way">How a room is addressed.</param>
    /// <param name="isTick">Twenty rooms in one send; else a send for each room.</param>
    public async Task<GroupSample> SendAsync(GroupWay way, bool isTick)
    {
        var before = Ask();
        var began = Stopwatch.GetTimestamp();
        foreach (var tick in _targets.Chunk(isTick ? RoomsOfTick : 1))
        {
            using (_output.BeginBufferingScope())
            {
                foreach (var room in tick)
                    Write(room.Group, room.Nodes, way);
            }

            await _output.FlushAsync();
        }

        var elapsed = Stopwatch.GetElapsedTime(began);
        var members = way == GroupWay.Ideal ? 2 : 2 * MembersOnGateway;
        var after = await WaitAsync(before.MemberBytes + ((long)members * _rooms * LinesOfRoom * LineBytes));
        var shares = (double)_rooms * Gateways;
        return new GroupSample((after.Frames - before.Frames) / shares, (after.Bytes - before.Bytes) / shares, elapsed.TotalMilliseconds / _rooms);
    }

    public async ValueTask DisposeAsync()
    {
        await _output.DisposeAsync();
        await _transport.DisposeAsync();
        foreach (var gateway in _gateways)
            gateway.Dispose();
    }

    private static string Text(int number) => number.ToString(CultureInfo.InvariantCulture);

    // Each gateway shares rooms with every other one.
    private static int[] GatewaysOf(int room) => [room % Gateways, (room + 1 + (room / Gateways % (Gateways - 1))) % Gateways];

    /// <summary>Lets the members join, and waits until each gateway gets only what its members need.</summary>
    private async Task FillAsync(long[] nextClients)
    {
        var groups = new int[Gateways];
        for (var room = 0; room < _rooms; room++)
        {
            var name = $"room-{room}";
            var nodes = Array.ConvertAll(GatewaysOf(room), gateway => OutputHandle.Connection(nextClients[gateway]));
            _targets[room] = (OutputHandle.Named(name), nodes);
            foreach (var gateway in GatewaysOf(room))
            {
                groups[gateway]++;
                for (var member = 0; member < MembersOnGateway; member++)
                    _output.Write(OutputHandle.Connection(nextClients[gateway]++), ControlMessage.JoinGroup(name));
            }
        }

        await _output.FlushAsync();
        var since = Stopwatch.GetTimestamp();
        while (!_gateways.Select(static gateway => gateway.Ask("count")).Index().All(gateway => gateway.Item is [_, _, _, var joined, 1] && joined == groups[gateway.Index]))
            await PauseAsync(since);

        // The nodes' confirmations are on their way.
        await SendAsync(GroupWay.Group, isTick: true);
    }

    private void Write(OutputHandle group, OutputHandle[] nodes, GroupWay way)
    {
        for (var line = 0; line < LinesOfRoom; line++)
        {
            if (way == GroupWay.Group)
                _output.Write(group, _line);
            else
                Array.ForEach(nodes, node => _output.Write(node, _line));
        }
    }

    private async Task<(long Frames, long Bytes, long MemberBytes)> WaitAsync(long memberBytes)
    {
        var since = Stopwatch.GetTimestamp();
        for (var last = Ask(); ;)
        {
            await PauseAsync(since);
            var now = Ask();
            // Nodes without members may still be getting theirs.
            if (now.MemberBytes >= memberBytes && now == last)
                return now;
            last = now;
        }
    }

    private (long Frames, long Bytes, long MemberBytes) Ask()
    {
        var counts = Array.ConvertAll(_gateways, static gateway => gateway.Ask("count"));
        return (counts.Sum(static count => count[0]), counts.Sum(static count => count[1]), counts.Sum(static count => count[2]));
    }

    private static async Task PauseAsync(long since)
    {
        if (Stopwatch.GetElapsedTime(since) > Limit)
            throw new InvalidOperationException($"The gateways did not get everything within {Limit.TotalSeconds} s.");
        await Task.Delay(TimeSpan.FromMilliseconds(50));
    }
}

/// <summary>How the game addresses a room.</summary>
internal enum GroupWay
{
    /// <summary>As a group.</summary>
    Group = 0,

    /// <summary>As the two nodes that have its members, which no game knows: each gets the lines once.</summary>
    Ideal = 1,
}

/// <summary>What one room's lines cost.</summary>
/// <param name="Frames">The frames that a gateway gets, on average.</param>
/// <param name="Bytes">The bytes that a gateway gets from the broker, on average.</param>
/// <param name="Milliseconds">The game's time until they are confirmed.</param>
internal readonly record struct GroupSample(double Frames, double Bytes, double Milliseconds);
