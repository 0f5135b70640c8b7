namespace BatchKit.Dispatch;

/// <summary>What became of the output of one partition. Written by one thread at a time, read by anyone.</summary>
internal sealed class PartitionCounters
{
    private readonly long[] _settledMessages = new long[(int)Settled.Failed + 1];
    private long _unscopedBatches;
    private long _sends;
    private long _failedSends;

    /// <summary>Batches that were sealed because their sender came for them.</summary>
    public long UnscopedBatches => Volatile.Read(ref _unscopedBatches);

    public long Sends => Volatile.Read(ref _sends);

    public long FailedSends => Volatile.Read(ref _failedSends);

    public long Messages(Settled outcome) => Volatile.Read(ref _settledMessages[(int)outcome]);

    public void CountUnscoped(int batches) => Volatile.Write(ref _unscopedBatches, _unscopedBatches + batches);

    public void CountSend() => Volatile.Write(ref _sends, _sends + 1);

    public void CountFailedSend() => Volatile.Write(ref _failedSends, _failedSends + 1);

    public void CountSettled(Settled outcome, int messages)
    {
        ref var counter = ref _settledMessages[(int)outcome];
        Volatile.Write(ref counter, counter + messages);
    }
}
