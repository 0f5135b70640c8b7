using BatchKit.Benchmarks.Children;

namespace BatchKit.Benchmarks.EchoServers;

/// <summary><c>echo kind</c>: one server of the playhouse suite, in a process of its own.</summary>
internal static class EchoServerCommand
{
    public static async Task<int> RunAsync(EchoServerKind kind)
    {
        var pipe = new ControlPipe();
        await using IEchoServer server = kind switch
        {
            EchoServerKind.SendEach => new SendEachServer(),
            EchoServerKind.KestrelPipes => new KestrelPipesServer(),
            EchoServerKind.BatchKit => new BatchKitEchoServer(OutputRoute.MaxPartitions),
            _ => throw new ArgumentOutOfRangeException(nameof(kind), kind, "This one is no part of the program."),
        };
        pipe.Reply(await server.StartAsync());
        Serve(pipe);
        return 0;
    }

    private static void Serve(ControlPipe pipe)
    {
        while (pipe.Read() is { IsEmpty: false } command)
        {
            if (command.SequenceEqual("usage"u8))
                ServerUsage.Reply(pipe);
            else if (command.SequenceEqual("live"u8))
                pipe.Reply(CollectAndCount());
            else
                pipe.Reply(Environment.WorkingSet);
        }
    }

    /// <summary>The bytes that are in use, without what waits for the collector.</summary>
    private static long CollectAndCount()
    {
        GC.Collect();
        GC.WaitForPendingFinalizers();
        GC.Collect();
        return GC.GetTotalMemory(forceFullCollection: false);
    }
}
