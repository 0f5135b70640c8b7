using BatchKit.Broadcast;
using BatchKit.Sessions;
using BatchKit.Transports;
using MudServer.Game;

namespace MudServer.Hosting;

/// <summary>The content of <c>/stats</c>. A part that this process does not have is null.</summary>
internal sealed record MudStatistics
{
    public required MudRole Role { get; init; }

    public required MudTransport Transport { get; init; }

    public required string Hop { get; init; }

    public required bool IsBuffered { get; init; }

    public required int Node { get; init; }

    public required int? Players { get; init; }

    /// <summary>The shards that this game plays now; null at a gateway.</summary>
    public required IReadOnlyList<int>? Shards { get; init; }

    /// <summary>The players between two connections; null at a gateway.</summary>
    public required SessionStatistics? Away { get; init; }

    public required OutputStatistics? Output { get; init; }

    public required OutputStatistics? Input { get; init; }

    public required BatchReceiverStatistics? Receiver { get; init; }

    public required BroadcastStatistics? Clients { get; init; }
}
