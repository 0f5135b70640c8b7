namespace BatchKit.Dispatch;

/// <summary>What became of the output of one partition. Written by its sender alone, read by anyone.</summary>
internal sealed class PartitionCounters
{
    private long _acknowledgedMessages;
    private long _failedMessages;
    private long _droppedMessages;
    private long _sends;
    private long _failedSends;

    public long AcknowledgedMessages => Volatile.Read(ref _acknowledgedMessages);

    public long FailedMessages => Volatile.Read(ref _failedMessages);

    public long DroppedMessages => Volatile.Read(ref _droppedMessages);

    public long Sends => Volatile.Read(ref _sends);

    public long FailedSends => Volatile.Read(ref _failedSends);

    public void CountSend() => Volatile.Write(ref _sends, _sends + 1);

    public void CountFailedSend() => Volatile.Write(ref _failedSends, _failedSends + 1);

    public void CountSettled(Settled outcome, int messages)
    {
        ref var counter = ref _acknowledgedMessages;
        if (outcome == Settled.Failed)
            counter = ref _failedMessages;
        else if (outcome == Settled.Dropped)
            counter = ref _droppedMessages;
        Volatile.Write(ref counter, counter + messages);
    }
}
