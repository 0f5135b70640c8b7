namespace BatchKit.Broadcast.Connections;

/// <summary>Counts deliveries of all connections; any thread adds and reads.</summary>
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
