namespace BatchKit.Dispatch;

/// <summary>A writer that waits for room. It continues on the thread pool, never on the thread that made the room.</summary>
internal sealed class RoomWaiter(int bytes) : TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously)
{
    public int Bytes { get; } = bytes;
}
