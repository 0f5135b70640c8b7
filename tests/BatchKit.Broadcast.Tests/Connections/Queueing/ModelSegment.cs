using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast.Tests.Connections.Queueing;

/// <summary>What waits in the model.</summary>
/// <param name="Amount">What is counted when it is settled.</param>
/// <param name="Rest">What the wire has not taken yet.</param>
/// <param name="IsStarted">True when the wire has taken a part.</param>
/// <param name="Switches">True when another wire takes over behind it.</param>
/// <param name="HeldBytes">The memory that it holds.</param>
internal sealed record ModelSegment(Amount Amount, byte[] Rest, bool IsStarted, bool Switches, int HeldBytes);
