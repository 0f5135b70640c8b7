using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.FanoutServers;

namespace BatchKit.Benchmarks.Fanout;

/// <summary>One way to bring messages to all subscribers.</summary>
/// <param name="Method">Its name.</param>
/// <param name="Server">What sends.</param>
/// <param name="Workload">What is sent.</param>
/// <param name="Messages">How many messages each subscriber gets.</param>
/// <param name="IsForMostOnly">Measured with the largest number of subscribers only.</param>
internal sealed record FanoutBenchmark(
    string Method, FanoutServerKind Server, FanoutWorkload Workload = FanoutWorkload.Message, int Messages = 1, bool IsForMostOnly = false)
{
    public static IReadOnlyList<FanoutBenchmark> All { get; } =
    [
        new("Naive", FanoutServerKind.Naive),
        new("NaiveTcp", FanoutServerKind.NaiveTcp),
        new("Kestrel", FanoutServerKind.Kestrel),
        new("SignalR", FanoutServerKind.SignalR),
        new("Floor", FanoutServerKind.Floor),
        new("Ring", FanoutServerKind.Ring),
        new("UWebSockets", FanoutServerKind.UWebSockets),
        new("BatchKitTcp", FanoutServerKind.BatchKitTcp),
        new("BatchKitWebSocket", FanoutServerKind.BatchKitWebSocket),
        new("FiftyGroups", FanoutServerKind.BatchKitTcp, FanoutWorkload.FiftyGroups, IsForMostOnly: true),
        new("TenInOneScopeTcp", FanoutServerKind.BatchKitTcp, FanoutWorkload.TenInOneScope, Messages: 10, IsForMostOnly: true),
        new("TenInOneScopeWebSocket", FanoutServerKind.BatchKitWebSocket, FanoutWorkload.TenInOneScope, Messages: 10, IsForMostOnly: true),
        new("TenBroadcastsTcp", FanoutServerKind.BatchKitTcp, FanoutWorkload.TenMessages, Messages: 10, IsForMostOnly: true),
        new("TenBroadcastsWebSocket", FanoutServerKind.BatchKitWebSocket, FanoutWorkload.TenMessages, Messages: 10, IsForMostOnly: true),
    ];

    /// <summary>Why it can't run on this machine.</summary>
    public string? WhyMissing => Server switch
    {
        FanoutServerKind.Floor => NativeProgram.WhyMissing,
        FanoutServerKind.Ring => RingProgram.WhyMissing,
        FanoutServerKind.UWebSockets => UWebSocketsProgram.WhyMissing,
        _ => null,
    };

    /// <summary>How many sends a subscriber costs.</summary>
    public int Sends => Workload == FanoutWorkload.TenMessages ? Messages : 1;

    /// <summary>How many bytes of messages each subscriber gets.</summary>
    public long Bytes => (long)Messages * (Server == FanoutServerKind.SignalR ? SignalRServer.MessageBytes : Payload.Bytes);

    /// <summary>The name in <c>gates.json</c>.</summary>
    public string NameFor(int subscribers) => $"{nameof(BroadcastBenchmarks)}.{Method}[Subscribers={subscribers}]";
}
