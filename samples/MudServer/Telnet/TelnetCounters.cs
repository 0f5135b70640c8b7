namespace MudServer.Telnet;

/// <summary>What the last hop has done so far. Counted from any thread.</summary>
internal sealed class TelnetCounters
{
    private long _accepted;
    private long _turnedAway;
    private long _batches;
    private long _messages;
    private long _deliveries;
    private long _goneBatches;
    private long _slowConnections;
    private long _unknownControls;

    public void CountAccepted() => Interlocked.Increment(ref _accepted);

    public void CountTurnedAway() => Interlocked.Increment(ref _turnedAway);

    public void CountBatch(int messages)
    {
        Interlocked.Increment(ref _batches);
        Interlocked.Add(ref _messages, messages);
    }

    public void CountDelivery() => Interlocked.Increment(ref _deliveries);

    public void CountGoneBatch() => Interlocked.Increment(ref _goneBatches);

    public void CountSlowConnection() => Interlocked.Increment(ref _slowConnections);

    public void CountUnknownControl() => Interlocked.Increment(ref _unknownControls);

    public TelnetStatistics Read(int connections, int groups) => new(
        connections, groups, Interlocked.Read(ref _accepted), Interlocked.Read(ref _turnedAway), Interlocked.Read(ref _batches),
        Interlocked.Read(ref _messages), Interlocked.Read(ref _deliveries), Interlocked.Read(ref _goneBatches),
        Interlocked.Read(ref _slowConnections), Interlocked.Read(ref _unknownControls));
}
