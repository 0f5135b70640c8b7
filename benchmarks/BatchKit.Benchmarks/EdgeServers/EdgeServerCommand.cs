using BatchKit.Benchmarks.Children;

namespace BatchKit.Benchmarks.EdgeServers;

/// <summary><c>edge kind port</c>: one server of the edge suite, in a process of its own. It ends at once with its parent's command, as a server that is killed.</summary>
internal static class EdgeServerCommand
{
    public static async Task<int> RunAsync(EdgeServerKind kind, int port)
    {
        var pipe = new ControlPipe();
        var arrivals = new Arrivals();
        IEdgeServer server = kind switch
        {
            EdgeServerKind.BareAccept => new BareAcceptServer(arrivals),
            EdgeServerKind.BatchKitTelnet => new BatchKitTelnetServer(arrivals),
            EdgeServerKind.KestrelWebSocket => new KestrelGreetingServer(arrivals),
            EdgeServerKind.BatchKitWebSocket => new BatchKitWebSocketServer(arrivals),
            _ => throw new ArgumentOutOfRangeException(nameof(kind), kind, "There is no such server."),
        };
        pipe.Reply(await server.StartAsync(port));
        while (true)
        {
            var command = pipe.Read();
            if (command.SequenceEqual("count"u8))
                pipe.Reply(arrivals.Count, arrivals.LastAt);
            else if (command.SequenceEqual("usage"u8))
                ServerUsage.Reply(pipe);
            else
                return 0;
        }
    }
}

/// <summary>A server that strangers meet.</summary>
internal interface IEdgeServer
{
    /// <summary>Starts to listen.</summary>
    /// <param name="port">The port; 0 for a free one.</param>
    /// <returns>The port.</returns>
    Task<int> StartAsync(int port);
}
