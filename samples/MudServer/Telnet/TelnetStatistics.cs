namespace MudServer.Telnet;

/// <summary>The last hop's counters as one snapshot.</summary>
/// <param name="Connections">Open now.</param>
/// <param name="Groups">Groups with at least one connection of this node.</param>
/// <param name="AcceptedConnections">Accepted so far.</param>
/// <param name="TurnedAwayConnections">Closed at once because there were too many.</param>
/// <param name="Batches">Batches received, whatever became of them.</param>
/// <param name="Messages">Messages in them.</param>
/// <param name="Deliveries">Times that a batch was queued for a connection; a group's batch counts once for each of its connections.</param>
/// <param name="GoneBatches">Batches refused because their connection was gone.</param>
/// <param name="SlowConnections">Connections closed because their client did not read.</param>
/// <param name="UnknownControls">Control messages that this hop could not read.</param>
internal sealed record TelnetStatistics(
    int Connections, int Groups, long AcceptedConnections, long TurnedAwayConnections, long Batches, long Messages, long Deliveries,
    long GoneBatches, long SlowConnections, long UnknownControls);
