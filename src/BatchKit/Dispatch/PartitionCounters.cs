namespace BatchKit.Dispatch;

/// <summary>What became of the output of one partition. Written by one thread at a time, read by anyone.</summary>
internal sealed class PartitionCounters
{
    private readonly long[] _settledMessages = new long[(int)Settled.Failed + 1];
    private long _sends;
    private long _failedSends;

    public long Sends => Volatile.Read(ref _sends);

    public long FailedSends => Volatile.Read(ref _failedSends);

    public long Messages(Settled outcome) => Volatile.Read(ref _settledMessages[(int)outcome]);

    public void CountSend() => Volatile.Write(ref _sends, _sends + 1);

    public void CountFailedSend() => Volatile.Write(ref _failedSends, _failedSends + 1);

    public void CountSettled(Settled outcome, int messages)
    {
        ref var counter = ref _settledMessages[(int)outcome];
        Volatile.Write(ref counter, counter + messages);
    }
}
