using BatchKit.Transports;

namespace BatchKit.Tests.Schedules;

/// <summary>What one partition has sent: numbers rise, and what is sent again is unchanged and comes before anything newer.</summary>
internal sealed class PartitionHistory(Journal journal)
{
    private readonly Dictionary<long, SentBatch> _batches = [];
    private long _lastNumber;

    public ScheduledSend? UnderWay { get; set; }

    /// <summary>Takes a send's batches, and gives those of before in the place of the ones that are sent again.</summary>
    public SentBatch[] Take(SentBatch[] batches)
    {
        var newestBefore = _lastNumber;
        var previous = 0L;
        for (var index = 0; index < batches.Length; index++)
        {
            var batch = batches[index];
            if (batch.Number <= previous)
                journal.Broken($"the numbers of a send do not rise at {batch}");
            previous = batch.Number;
            if (batch.Number > newestBefore)
                Add(batch);
            else
                batches[index] = SentBefore(batch);
        }

        MarkOvertaken(batches, newestBefore);
        return batches;
    }

    private void Add(SentBatch batch)
    {
        _batches.Add(batch.Number, batch);
        _lastNumber = batch.Number;
    }

    private SentBatch SentBefore(SentBatch again)
    {
        if (!_batches.TryGetValue(again.Number, out var before))
        {
            journal.Broken($"{again} has a number that was left out before");
            return again;
        }

        if (before.IsSettled)
            journal.Broken($"{again} was sent again, though it was settled");
        if (before.IsOvertaken)
            journal.Broken($"{again} was sent again after something newer");
        if (!before.IsSameAs(again))
            journal.Broken($"{again} was sent before with other messages: {before}");
        return before;
    }

    // An unsettled batch that is not in a send with a newer one for the same receivers has been given up: it must never be sent again.
    private void MarkOvertaken(SentBatch[] batches, long newestBefore)
    {
        var newer = new FrameReceivers();
        foreach (var batch in batches.Where(batch => batch.Number > newestBefore))
            newer.Add(batch.Destination);
        foreach (var left in _batches.Values.Where(batch => !batch.IsSettled && newer.Overlap(batch.Destination)).Except(batches).ToList())
            left.IsOvertaken = true;
    }
}
