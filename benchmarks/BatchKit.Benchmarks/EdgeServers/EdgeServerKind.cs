namespace BatchKit.Benchmarks.EdgeServers;

/// <summary>A server that strangers meet.</summary>
internal enum EdgeServerKind
{
    /// <summary>A blocking accept in a loop, which keeps each socket and does nothing else: the floor.</summary>
    BareAccept = 0,

    /// <summary>BatchKit's telnet listener. Each client joins a group and is greeted.</summary>
    BatchKitTelnet = 1,

    /// <summary>WebSockets under Kestrel, each accepted and greeted by hand.</summary>
    KestrelWebSocket = 2,

    /// <summary>BatchKit's WebSockets under Kestrel. Each client joins a group and is greeted.</summary>
    BatchKitWebSocket = 3,
}
