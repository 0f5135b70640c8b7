using System.Runtime.CompilerServices;

namespace BatchKit.Broadcast.Connections;

/// <summary>Counts the deliveries of all connections. Thread-safe.</summary>
internal sealed class DeliveryCounters
{
    private readonly long[] _messages = new long[DeliveryTally.Outcomes];
    private readonly long[] _bytes = new long[DeliveryTally.Outcomes];
    private long _attemptedMessages;
    private long _attemptedBytes;

    public Amount Attempted => new(Interlocked.Read(ref _attemptedMessages), Interlocked.Read(ref _attemptedBytes));

    public Amount this[DeliveryOutcome outcome] => new(Interlocked.Read(ref _messages[(int)outcome]), Interlocked.Read(ref _bytes[(int)outcome]));

    public void Add(in DeliveryTally tally)
    {
        Add(ref _attemptedMessages, ref _attemptedBytes, tally.Attempted);
        for (var outcome = 0; outcome < DeliveryTally.Outcomes; outcome++)
            Add(ref _messages[outcome], ref _bytes[outcome], tally[(DeliveryOutcome)outcome]);
    }

    private static void Add(ref long messages, ref long bytes, Amount amount)
    {
        if (amount.Messages != 0)
            Interlocked.Add(ref messages, amount.Messages);
        if (amount.Bytes != 0)
            Interlocked.Add(ref bytes, amount.Bytes);
    }
}

/// <summary>What one worker delivered, by outcome, until it is added to the counters.</summary>
internal struct DeliveryTally
{
    public const int Outcomes = (int)DeliveryOutcome.Superseded + 1;

    private OutcomeAmounts _settled;

    public Amount Attempted { get; private set; }

    public readonly Amount this[DeliveryOutcome outcome] => _settled[(int)outcome];

    public void Attempt(Amount amount) => Attempted += amount;

    public void Settle(DeliveryOutcome outcome, Amount amount) => _settled[(int)outcome] += amount;

    [InlineArray(Outcomes)]
    private struct OutcomeAmounts
    {
        private Amount _first;
    }
}

/// <summary>The outcome of a message for one connection.</summary>
internal enum DeliveryOutcome
{
    /// <summary>The socket took all of it.</summary>
    Sent = 0,

    /// <summary>It was dropped for newer output.</summary>
    DroppedOldest = 1,

    /// <summary>It was dropped because the queue was full.</summary>
    DroppedNewest = 2,

    /// <summary>It was dropped because its client did not read and was disconnected.</summary>
    DroppedSlowConsumer = 3,

    /// <summary>It was dropped because its connection was closed.</summary>
    DroppedClosed = 4,

    /// <summary>Its connection broke.</summary>
    Failed = 5,

    /// <summary>A newer latest value took its place while it waited.</summary>
    Superseded = 6,
}

/// <summary>A number of messages, and the bytes that they take on the wire.</summary>
internal readonly record struct Amount(long Messages, long Bytes)
{
    public static Amount operator +(Amount left, Amount right) => new(left.Messages + right.Messages, left.Bytes + right.Bytes);

    public static Amount operator -(Amount left, Amount right) => new(left.Messages - right.Messages, left.Bytes - right.Bytes);
}
