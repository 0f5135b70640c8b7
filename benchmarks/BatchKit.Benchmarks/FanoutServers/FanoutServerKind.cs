namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>The servers that are compared.</summary>
internal enum FanoutServerKind
{
    /// <summary>The loop of send() in C.</summary>
    Floor = 0,
    Naive = 1,
    Kestrel = 2,
    SignalR = 3,
    BatchKitTcp = 4,
    BatchKitWebSocket = 5,

    /// <summary>With several ordered lanes, so that a message for one client need not wait for a broadcast.</summary>
    BatchKitPartitions = 6,
}
