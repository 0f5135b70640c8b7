namespace BatchKit.Broadcast.Tests.Connections.Queueing;

/// <summary>One step: what, how many messages, and how many bytes or milliseconds each.</summary>
internal sealed record QueueStep(QueueStepKind Kind, int Messages, int Size);
