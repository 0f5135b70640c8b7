namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>The servers that are compared.</summary>
internal enum FanoutServerKind
{
    /// <summary>The loop of send() in C.</summary>
    Floor = 0,
    Naive = 1,

    /// <summary>The same without WebSockets.</summary>
    NaiveTcp = 2,
    Kestrel = 3,
    SignalR = 4,
    BatchKitTcp = 5,
    BatchKitWebSocket = 6,

    /// <summary>With several ordered lanes, so that a message for one client need not wait for a broadcast.</summary>
    BatchKitPartitions = 7,

    /// <summary>With a route for groups and another for single clients.</summary>
    BatchKitGroupsApart = 8,

    /// <summary>A peer in C++ that is only there where its sources are.</summary>
    UWebSockets = 9,

    /// <summary>The loop in C with an io_uring a thread, where the system lets a process have one.</summary>
    Ring = 10,
}
