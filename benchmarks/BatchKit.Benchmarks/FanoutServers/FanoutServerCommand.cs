using System.Diagnostics;
using BatchKit.Benchmarks.Children;
using BatchKit.Broadcast;

namespace BatchKit.Benchmarks.FanoutServers;

/// <summary><c>fanout kind subscribers</c>: one server of the broadcast suite, in a process of its own.</summary>
internal static class FanoutServerCommand
{
    public static async Task<int> RunAsync(FanoutServerKind kind, int subscribers)
    {
        var pipe = new ControlPipe();
        await using var server = Make(kind, new FanoutCrowd(subscribers));
        pipe.Reply(await server.StartAsync());
        Serve(pipe, server);
        return 0;
    }

    private static IFanoutServer Make(FanoutServerKind kind, FanoutCrowd crowd) => kind switch
    {
        FanoutServerKind.Naive => new NaiveServer(),
        FanoutServerKind.NaiveTcp => new NaiveTcpServer(),
        FanoutServerKind.Kestrel => new KestrelServer(),
        FanoutServerKind.SignalR => new SignalRServer(),
        FanoutServerKind.BatchKitTcp => BatchKitServer.InOrder(crowd, ClientProtocol.Tcp),
        FanoutServerKind.BatchKitWebSocket => BatchKitServer.InOrder(crowd, ClientProtocol.WebSocket),
        FanoutServerKind.BatchKitPartitions => BatchKitServer.InPartitions(crowd, partitions: 8),
        FanoutServerKind.BatchKitGroupsApart => BatchKitServer.WithGroupsApart(crowd),
        _ => throw new ArgumentOutOfRangeException(nameof(kind), kind, "This one is no part of the program."),
    };

    private static void Serve(ControlPipe pipe, IFanoutServer server)
    {
        while (pipe.Read() is { IsEmpty: false } command)
        {
            var verb = ControlPipe.WordAt(command, 0);
            if (verb.SequenceEqual("run"u8))
                Send(pipe, server, (FanoutWorkload)ControlPipe.NumberAt(command, 1));
            else if (verb.SequenceEqual("usage"u8))
                ServerUsage.Reply(pipe);
            else if (verb.SequenceEqual("mix"u8))
                pipe.Reply(((BatchKitServer)server).Mix(ControlPipe.NumberAt(command, 1) != 0, TimeSpan.FromMilliseconds(ControlPipe.NumberAt(command, 2))));
            else
                pipe.Reply(server.Clients);
        }
    }

    private static void Send(ControlPipe pipe, IFanoutServer server, FanoutWorkload workload)
    {
        var began = Stopwatch.GetTimestamp();
        server.Send(workload);
        pipe.Reply(began, Stopwatch.GetTimestamp());
    }
}
