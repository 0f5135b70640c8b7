namespace BatchKit.Benchmarks.EchoServers;

/// <summary>The servers that are compared.</summary>
internal enum EchoServerKind
{
    /// <summary>The loop over an epoll in C, on one thread.</summary>
    FloorOneThread = 0,
    FloorTwoThreads = 1,

    /// <summary>Raw sockets with a send for each message.</summary>
    SendEach = 2,

    /// <summary>Kestrel's pipes with a flush for each message.</summary>
    KestrelPipes = 3,
    BatchKit = 4,
}
