namespace BatchKit.MQTTnet.Writing;

/// <summary>While one is open on a thread, what that thread writes to channels of batched writes is held back; its end writes it, on that thread.</summary>
internal readonly struct WriteHold : IDisposable
{
    [ThreadStatic]
    private static int _depth;

    // A send has one client, so mostly one channel; what goes to another meanwhile is written as without a hold.
    [ThreadStatic]
    private static BatchedWriteChannel? _held;

    public static WriteHold Begin()
    {
        _depth++;
        return default;
    }

    /// <summary>True when the channel's bytes will be written at the end of this thread's hold.</summary>
    public static bool TryHold(BatchedWriteChannel channel)
    {
        if (_depth == 0)
            return false;
        _held ??= channel;
        return _held == channel;
    }

    public void Dispose()
    {
        if (--_depth > 0)
            return;
        var held = _held;
        _held = null;
        held?.StartWriting();
    }
}
