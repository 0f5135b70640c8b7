namespace BatchKit.Transports;

/// <summary>Who numbered a batch: a node, an epoch drawn at its start, and one of its ordered lanes.</summary>
/// <remarks>Numbers rise within one producer. A process that starts again draws a new epoch and so is a new producer.</remarks>
/// <param name="Node">The node's number.</param>
/// <param name="Epoch">Drawn at random when the buffer was made.</param>
/// <param name="Lane">The route and partition, counted through.</param>
public readonly record struct ProducerId(int Node, long Epoch, int Lane);
