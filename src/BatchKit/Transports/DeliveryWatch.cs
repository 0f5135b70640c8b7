namespace BatchKit.Transports;

/// <summary>Finds out that a broker delivers nothing although frames wait in the queue, and that a frame is not handed on. Neither the broker nor its client reports that.</summary>
/// <remarks>
/// What a channel sends to a quorum queue of RabbitMQ can be lost while brokers of a cluster lose sight of each other (rabbitmq-server, pull request 14589, for published messages). Lost acknowledgements use up
/// the prefetch for as long as the channel is open. Thread-safe, but for <see cref="IsStalled"/> and <see cref="CountHeldChecks"/>.
/// </remarks>
internal sealed class DeliveryWatch
{
    private int _inHand;
    private long _received;

    // What had been received at the last check, when frames waited and none was in hand; null otherwise.
    private long? _receivedAtLastCheck;

    // What had been received at the last check, when a frame was in hand; null otherwise.
    private long? _heldAtLastCheck;
    private int _heldChecks;

    /// <summary>Whether a frame is being handed on.</summary>
    public bool HasFrame => Volatile.Read(ref _inHand) != 0;

    /// <summary>A frame has come.</summary>
    public void Begin()
    {
        Interlocked.Increment(ref _inHand);
        Interlocked.Increment(ref _received);
    }

    /// <summary>A frame that has come is handed on, or given up.</summary>
    public void End() => Interlocked.Decrement(ref _inHand);

    /// <summary>True when frames wait at this check as at the last one, and none came in between. Call it at an interval in which a broker that works delivers one.</summary>
    /// <param name="waiting">How many frames the broker has in the queue now, besides those that it has delivered.</param>
    public bool IsStalled(uint waiting)
    {
        long? received = waiting > 0 && !HasFrame ? Interlocked.Read(ref _received) : null;
        var isStalled = received is not null && received == _receivedAtLastCheck;
        // A consumer that is started again because of this has two checks of its own.
        _receivedAtLastCheck = isStalled ? null : received;
        return isStalled;
    }

    /// <summary>At how many consecutive checks the frame in hand was so at the check before; 0 when none was. Call it at an interval in which the next transport takes one.</summary>
    public int CountHeldChecks()
    {
        long? held = HasFrame ? Interlocked.Read(ref _received) : null;
        _heldChecks = held is not null && held == _heldAtLastCheck ? _heldChecks + 1 : 0;
        _heldAtLastCheck = held;
        return _heldChecks;
    }

    /// <summary>What is wrong when a frame is held, in a sentence.</summary>
    public static string DescribeHeld(uint waiting, TimeSpan interval) => $"The next transport or handler has had a frame for longer than {interval}, and {waiting} more wait in the queue.";

    /// <summary>What is wrong when nothing is delivered, in a sentence.</summary>
    public static string Describe(uint waiting) => $"{waiting} frames wait in the queue, and the broker delivers none.";
}
