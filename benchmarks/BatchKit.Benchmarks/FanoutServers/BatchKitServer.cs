using System.Buffers.Binary;
using System.Collections.Immutable;
using System.Diagnostics;
using BatchKit.Broadcast;
using BatchKit.Transports;

namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>BatchKit: one write to a group within a scope, or several.</summary>
internal sealed class BatchKitServer : IFanoutServer
{
    private static readonly OutputHandle Everybody = OutputHandle.Named(FanoutCrowd.Everybody);
    private static readonly OutputHandle[] LargeGroups =
        [.. Enumerable.Range(0, FanoutCrowd.LargeGroups).Select(number => OutputHandle.Named(FanoutCrowd.LargeGroup(number)))];

    private readonly BroadcastTransport _transport;
    private readonly OutputBuffer _output;
    private readonly CrowdHandlers _handlers;
    private readonly IFanoutDoor _door;
    private readonly FanoutCrowd _crowd;

    private BatchKitServer(FanoutCrowd crowd, ClientProtocol protocol, Func<BroadcastTransport, OutputBuffer> makeOutput)
    {
        _crowd = crowd;
        _transport = new BroadcastTransport(new BroadcastOptions { KeepAliveInterval = null, MaxConnectionsPerAddress = 100_000, TextInputLimits = null });
        _output = makeOutput(_transport);
        _handlers = new CrowdHandlers(crowd, _output);
        _door = protocol == ClientProtocol.Tcp ? new TcpDoor(_transport, _handlers.Make) : new WebSocketDoor(_transport, _handlers.Make);
    }

    /// <summary>As it comes: all output of this process in one order.</summary>
    public static BatchKitServer InOrder(FanoutCrowd crowd, ClientProtocol protocol) => new(crowd, protocol, transport => new OutputBuffer(transport));

    /// <summary>Several ordered lanes: a message for one client waits for a broadcast only when both happen to be in one.</summary>
    public static BatchKitServer InPartitions(FanoutCrowd crowd, int partitions) =>
        new(crowd, ClientProtocol.Tcp, transport => new OutputBuffer([new OutputRoute("local", transport, partitions)]));

    /// <summary>Groups on a route of their own.</summary>
    public static BatchKitServer WithGroupsApart(FanoutCrowd crowd) => new(crowd, ClientProtocol.Tcp, transport =>
    {
        var router = new GroupsApartRouter(transport);
        return new OutputBuffer(router.Routes, router);
    });

    public int Clients => _handlers.Joined;

    public Task<int> StartAsync() => _door.StartAsync();

    public void Send(FanoutWorkload workload)
    {
        if (workload == FanoutWorkload.Message)
            Write(messages: 1).Dispose();
        else if (workload == FanoutWorkload.TenInOneScope)
            Write(messages: 10).Dispose();
        else if (workload == FanoutWorkload.TenMessages)
            SendTen();
        else
            SendToGroups();
    }

    /// <summary>Writes to single clients in turn, about one a millisecond, with or without others' messages under way.</summary>
    /// <param name="isBusy">Broadcast to everybody without a pause meanwhile, and write to a small group with each.</param>
    /// <param name="duration">How long.</param>
    /// <returns>How many broadcasts were sent.</returns>
    public int Mix(bool isBusy, TimeSpan duration)
    {
        var singles = new SingleWrites(_output, _handlers.Singles, isBusy ? _crowd.SmallGroups : 0);
        var writing = new Thread(() => singles.Run(duration));
        writing.Start();
        var broadcasts = 0;
        while (isBusy && writing.IsAlive)
        {
            Write(messages: 1).DisposeAsync().AsTask().GetAwaiter().GetResult();
            broadcasts++;
        }

        writing.Join();
        return broadcasts;
    }

    public async ValueTask DisposeAsync()
    {
        await _output.DisposeAsync();
        await _transport.DisposeAsync();
        await _door.DisposeAsync();
    }

    /// <returns>The open scope.</returns>
    private BufferingScope Write(int messages)
    {
        var scope = _output.BeginBufferingScope(Everybody);
        for (var message = 0; message < messages; message++)
            _output.Write(Everybody, Payload.Encoded);
        return scope;
    }

    private void SendTen()
    {
        for (var message = 0; message < 10; message++)
            Write(messages: 1).DisposeAsync().AsTask().GetAwaiter().GetResult();
    }

    private void SendToGroups()
    {
        using (_output.BeginBufferingScope())
        {
            foreach (var group in LargeGroups)
                _output.Write(group, Payload.Encoded);
        }
    }
}

/// <summary>Gives groups a route of their own, so that single clients never wait behind a broadcast; nothing orders the two.</summary>
internal sealed class GroupsApartRouter(IBatchTransport transport) : IOutputRouter
{
    private const int ClientPartitions = 8;

    private static readonly ImmutableArray<string> Clients = ["clients"];
    private static readonly ImmutableArray<string> Groups = ["groups"];

    public IReadOnlyList<OutputRoute> Routes { get; } =
        [new OutputRoute(Clients[0], transport, ClientPartitions), new OutputRoute(Groups[0], transport)];

    public ImmutableArray<string> GetRoutes(OutputHandle handle) => handle.IsConnection ? Clients : Groups;
}

/// <summary>Writes to single clients in turn, each message with the time at which it was written, and to small groups beside them.</summary>
internal sealed class SingleWrites(IOutputBuffer output, OutputHandle[] singles, int smallGroups)
{
    private readonly byte[] _message = new byte[Payload.Bytes];

    public void Run(TimeSpan duration)
    {
        var began = Stopwatch.GetTimestamp();
        for (var number = 0; Stopwatch.GetElapsedTime(began) < duration; number++)
        {
            if (smallGroups > 0)
                output.Write(OutputHandle.Named(FanoutCrowd.SmallGroup(number % smallGroups)), Payload.Encoded);
            BinaryPrimitives.WriteInt64LittleEndian(_message, Stopwatch.GetTimestamp());
            output.Write(singles[number % singles.Length], _message);
            Thread.Sleep(1);
        }
    }
}
