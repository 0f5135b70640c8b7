namespace BatchKit.Broadcast.Connections;

/// <summary>What bounds the output that waits for one client.</summary>
internal sealed record SendQueueLimits(int MaxBytes, int MaxMessages, SlowConsumerPolicy Policy)
{
    /// <summary>What messages may take; the rest is kept for the closing bytes.</summary>
    public int RoomBytes { get; } = MaxBytes - ClosingBytes.MaxBytes;

    /// <summary>The longest run of several messages, and the most that is written at once: what is under way can't be dropped, and newer output must have room beside it.</summary>
    public int MaxRunBytes => Math.Min(PieceQueue.MaxWriteBytes, RoomBytes / 2);

    /// <summary>The most messages in it.</summary>
    public int MaxRunMessages => Math.Max(1, MaxMessages / 2);

    public static SendQueueLimits From(BroadcastOptions options) => new(options.MaxQueuedBytes, options.MaxQueuedMessages, options.SlowConsumer);
}
