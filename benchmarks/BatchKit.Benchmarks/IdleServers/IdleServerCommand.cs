using System.Diagnostics;
using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.FanoutServers;
using BatchKit.Broadcast;

namespace BatchKit.Benchmarks.IdleServers;

/// <summary><c>idle kind</c>: one server whose clients are silent, in a process of its own.</summary>
internal static class IdleServerCommand
{
    public static async Task<int> RunAsync(IdleServerKind kind)
    {
        var pipe = new ControlPipe();
        await using IFanoutServer server = kind switch
        {
            IdleServerKind.Socket => new SilentSockets(),
            IdleServerKind.BatchKitTcp => new IdleBatchKitServer(ClientProtocol.Tcp),
            IdleServerKind.BatchKitTelnet => new IdleBatchKitServer(ClientProtocol.Telnet),
            IdleServerKind.BatchKitWebSocket => new IdleBatchKitServer(ClientProtocol.WebSocket),
            IdleServerKind.Kestrel => new KestrelServer(),
            IdleServerKind.SignalR => new SignalRServer(),
            _ => throw new ArgumentOutOfRangeException(nameof(kind), kind, "This one is no part of the program."),
        };
        pipe.Reply(await server.StartAsync());
        Serve(pipe, server);
        return 0;
    }

    private static void Serve(ControlPipe pipe, IFanoutServer server)
    {
        while (pipe.Read() is { IsEmpty: false } command)
        {
            if (command.SequenceEqual("memory"u8))
                pipe.Reply(ReadResidentBytes());
            else if (ControlPipe.WordAt(command, 0).SequenceEqual("run"u8))
                Send(pipe, server);
            else
                pipe.Reply(server.Clients);
        }
    }

    private static void Send(ControlPipe pipe, IFanoutServer server)
    {
        var began = Stopwatch.GetTimestamp();
        server.Send(FanoutWorkload.Message);
        pipe.Reply(began, Stopwatch.GetTimestamp());
    }

    /// <summary>The process's resident memory behind a collection: what is left is held for the clients.</summary>
    private static long ReadResidentBytes()
    {
        // Finalizers free what only a second collection can take.
        for (var collection = 0; collection < 2; collection++)
        {
            GC.Collect(GC.MaxGeneration, GCCollectionMode.Aggressive, blocking: true, compacting: true);
            GC.WaitForPendingFinalizers();
        }

        return Environment.WorkingSet;
    }
}

/// <summary>The servers whose memory is compared.</summary>
internal enum IdleServerKind
{
    /// <summary>A socket with a receive that waits, and nothing else: the floor of .NET.</summary>
    Socket = 0,
    BatchKitTcp = 1,
    BatchKitTelnet = 2,
    BatchKitWebSocket = 3,
    Kestrel = 4,
    SignalR = 5,

    /// <summary>A peer in C++ that is only there where its sources are.</summary>
    UWebSockets = 6,
}
