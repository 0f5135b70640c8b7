namespace BatchKit.Broadcast.Connections;

/// <summary>What bounds the output that waits for one client.</summary>
internal sealed record SendQueueLimits(int MaxBytes, int MaxMessages, SlowConsumerPolicy Policy)
{
    /// <summary>What messages may take; the rest is kept for the closing bytes.</summary>
    public int RoomBytes { get; } = MaxBytes - ClosingBytes.MaxBytes;

    /// <summary>The longest run of several messages: one that fits into an empty queue, and that is written at once.</summary>
    public int MaxRunBytes => Math.Min(PieceQueue.MaxWriteBytes, RoomBytes);

    public static SendQueueLimits From(BroadcastOptions options) => new(options.MaxQueuedBytes, options.MaxQueuedMessages, options.SlowConsumer);
}
