namespace BatchKit.Postgres;

/// <summary>A message that was given up.</summary>
/// <param name="Id">Its number; see <see cref="QueueMessage.Id"/>.</param>
/// <param name="Key">The key that it was enqueued with; null when it had none.</param>
/// <param name="Attempts">How often it was handled.</param>
/// <param name="Error">What was said of its last attempt.</param>
/// <param name="EnqueuedAt">When it was enqueued.</param>
/// <param name="DiedAt">When it was given up.</param>
/// <param name="Payload">Its bytes.</param>
public sealed record DeadMessage(long Id, string? Key, int Attempts, string Error, DateTimeOffset EnqueuedAt, DateTimeOffset DiedAt, ReadOnlyMemory<byte> Payload);
