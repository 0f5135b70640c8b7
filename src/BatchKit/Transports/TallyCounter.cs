namespace BatchKit.Transports;

/// <summary>Counts batches and the messages in them: one thread adds, any thread reads.</summary>
internal struct TallyCounter
{
    private long _batches;
    private long _messages;

    public readonly long Batches => Interlocked.Read(in _batches);

    public readonly long Messages => Interlocked.Read(in _messages);

    public void Add(BatchTally tally)
    {
        Interlocked.Add(ref _batches, tally.Batches);
        Interlocked.Add(ref _messages, tally.Messages);
    }
}
