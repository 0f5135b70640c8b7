using BatchKit.Batches;

namespace BatchKit.Buffering;

/// <summary>The open writers of one handle. Guarded by the handle's lock.</summary>
internal struct HandleWriters
{
    private const int MinExpectedBytes = 1 << 10;
    private const int MaxExpectedBytes = 1 << 16;

    private WriterSegment? _first;

    // Odd while messages move from a writer to its handle's order, or writers come and go.
    private long _moves;

    // The size of the last writer's first batch.
    private int _expectedBytes;
    private int _expectedMessages;

    public readonly bool HaveOutput
    {
        get
        {
            var segment = _first;
            while (segment is { HasOutput: false })
                segment = segment.Next;
            return segment is not null;
        }
    }

    public void Add(WriterSegment segment, ref HandleOutput output, bool startsRun)
    {
        BeginMove();
        (segment.Next, _first) = (_first, segment);
        EndMove();
        if (startsRun)
            output.EndRun();
    }

    public void Remove(WriterSegment removed)
    {
        BeginMove();
        if (_first == removed)
            _first = removed.Next;
        for (var segment = _first; segment is not null; segment = segment.Next)
        {
            if (segment.Next == removed)
                segment.Next = removed.Next;
        }

        EndMove();
    }

    /// <summary>What is read without the lock from here to <see cref="EndMove"/> is read again.</summary>
    public void BeginMove() => Interlocked.Increment(ref _moves);

    public void EndMove() => Volatile.Write(ref _moves, _moves + 1);

    /// <summary>Begins a batch. A handle's loops are mostly as long as the one before.</summary>
    public readonly PendingBatch Begin(ref HandleOutput output)
    {
        var batch = output.Begin();
        if (_expectedBytes < MinExpectedBytes)
            return batch;
        batch.Memory.Expect(_expectedBytes, _expectedMessages);
        batch.TryReserveAhead(_expectedBytes + (_expectedMessages * OutputBufferOptions.MessageOverheadBytes));
        return batch;
    }

    public void Expect(PendingBatch another) =>
        (_expectedBytes, _expectedMessages) = (Math.Min(another.Bytes, MaxExpectedBytes), Math.Min(another.Count, MaxExpectedBytes / sizeof(int)));

    /// <summary>Puts what all have written so far into the handle's order. One whose scope was ended keeps nothing from here on, and its owner may have forgotten it.</summary>
    public void HandOverAll(HandleBuffer buffer)
    {
        if (HaveOutput)
        {
            for (var segment = _first; segment is not null; segment = segment.Next)
                segment.Ask();
            Interlocked.MemoryBarrierProcessWide();
        }

        for (var (segment, next) = (_first, default(WriterSegment)); segment is not null; segment = next)
        {
            next = segment.Next;
            segment.HandOverAsked(buffer);
            if (segment.IsEnded)
                Remove(segment);
        }
    }

    /// <summary>Reads the handle's figures with what its writers have: that is accepted, and pending. It needs no lock.</summary>
    public readonly HandleStatistics ReadStatistics(ref HandleOutput output, int openScopes)
    {
        var spin = default(SpinWait);
        while (true)
        {
            var moves = Volatile.Read(in _moves);
            var statistics = AddTo(output.GetStatistics(openScopes));
            Interlocked.MemoryBarrier();
            if (moves % 2 == 0 && Volatile.Read(in _moves) == moves)
                return statistics;
            spin.SpinOnce();
        }
    }

    private readonly HandleStatistics AddTo(HandleStatistics statistics)
    {
        for (var segment = _first; segment is not null; segment = segment.Next)
        {
            var (messages, bytes) = segment.CountOutput();
            statistics = HandleTable.Sum(statistics, new HandleStatistics(messages, bytes, SupersededMessages: 0, messages, OpenScopes: 0));
        }

        return statistics;
    }
}
