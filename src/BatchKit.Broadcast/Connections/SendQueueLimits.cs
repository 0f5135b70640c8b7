namespace BatchKit.Broadcast.Connections;

/// <summary>What bounds the output that waits for one client.</summary>
internal sealed record SendQueueLimits(int MaxBytes, int MaxMessages, SlowConsumerPolicy Policy);
