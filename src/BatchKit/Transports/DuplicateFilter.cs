namespace BatchKit.Transports;

/// <summary>Remembers what was seen of each producer, for a limited number of them and a limited time. One caller at a time.</summary>
internal sealed class DuplicateFilter(TimeProvider timeProvider, TimeSpan expiry, int maxProducers, long maxGap = SeenNumbers.MaxGap)
{
    private readonly Dictionary<ProducerId, LinkedListNode<SeenNumbers>> _nodes = [];
    // The most recently used comes first, so those that expire or are removed are at the end.
    private readonly LinkedList<SeenNumbers> _byUse = new();

    public int Count => _nodes.Count;

    /// <summary>Finds what was seen of a frame's producer. Allocates only for one that is not remembered.</summary>
    /// <param name="producer">The producer.</param>
    /// <param name="batches">The frame's batches.</param>
    /// <param name="maxJump">How far a number may lie above the one before it.</param>
    /// <returns>Null when a number jumps by more. Such a frame does not count as use, so a producer whose numbers really jump is forgotten after the expiry, and then starts again.</returns>
    public SeenNumbers? TryUse(ProducerId producer, ReadOnlySpan<MessageBatch> batches, long maxJump)
    {
        var now = timeProvider.GetTimestamp();
        while (_byUse.Last is { } oldest && timeProvider.GetElapsedTime(oldest.Value.LastUsed, now) > expiry)
            Forget(oldest);
        var isKnown = _nodes.TryGetValue(producer, out var node);
        if (!SeenNumbers.IsPlausible(node?.Value.Highest ?? 0, batches, maxJump))
            return null;
        if (!isKnown)
            node = Remember(producer);
        else if (node != _byUse.First)
            MoveToFront(node!);
        node!.Value.LastUsed = now;
        return node.Value;
    }

    private LinkedListNode<SeenNumbers> Remember(ProducerId producer)
    {
        if (_nodes.Count >= maxProducers && _byUse.Last is { } oldest)
            Forget(oldest);
        var node = _byUse.AddFirst(new SeenNumbers(producer, maxGap));
        _nodes.Add(producer, node);
        return node;
    }

    private void MoveToFront(LinkedListNode<SeenNumbers> node)
    {
        _byUse.Remove(node);
        _byUse.AddFirst(node);
    }

    private void Forget(LinkedListNode<SeenNumbers> node)
    {
        _byUse.Remove(node);
        _nodes.Remove(node.Value.Producer);
    }
}

/// <summary>Which of a producer's batches the next hop has.</summary>
/// <remarks>
/// Gaps between numbers are batches for other receivers. A large one does not mark what it skips as seen: it starts another run of numbers, and the previous run remains. A forged number thus
/// makes the receiver drop at most <see cref="MaxGap"/> genuine batches. Where frames are signed no gap is too large, so that no one can repeat a frame from before it.
/// </remarks>
internal sealed class SeenNumbers(ProducerId producer, long maxGap = SeenNumbers.MaxGap)
{
    /// <summary>The largest gap within a run, where frames are not signed.</summary>
    public const int MaxGap = 65_536;

    private NumberRun _current = new(from: 1, through: 0, maxGap);
    private NumberRun? _earlier;

    public ProducerId Producer { get; } = producer;

    public long LastUsed { get; set; }

    /// <summary>How many numbers are kept one by one.</summary>
    public int SingleNumbers => _current.SingleNumbers + (_earlier?.SingleNumbers ?? 0);

    public bool Contains(long number) => _current.Contains(number) || (_earlier is not null && _earlier.Contains(number));

    /// <summary>The highest number up to which a run is settled; 0 when nothing is.</summary>
    public long Highest => Math.Max(_current.Through, _earlier?.Through ?? 0);

    /// <summary>False when the batches' numbers jump by more than any producer's can: the frame is forged, or was damaged.</summary>
    public static bool IsPlausible(long highest, ReadOnlySpan<MessageBatch> batches, long maxJump)
    {
        var before = highest == 0 ? batches[0].Number : highest;
        foreach (var batch in batches)
        {
            if (batch.Number - before > maxJump)
                return false;
            before = Math.Max(before, batch.Number);
        }

        return true;
    }

    /// <summary>Marks a number as settled, with those below it in its run.</summary>
    public void AddThrough(long number) => RunOf(number).AddThrough(number);

    /// <summary>Marks a number as settled although one below it is not, as in a frame that was abandoned half-way.</summary>
    public void AddBeyond(long number) => RunOf(number).AddBeyond(number);

    private NumberRun RunOf(long number)
    {
        if (_current.Reaches(number))
            return _current;
        var next = _earlier is not null && _earlier.Reaches(number) ? _earlier : new NumberRun(number, number - 1, maxGap);
        _earlier = _current.Through == 0 ? _earlier : _current;
        return _current = next;
    }
}

/// <summary>A run of numbers: all from the first to the last are settled, and sometimes a few beyond.</summary>
internal sealed class NumberRun(long from, long through, long maxGap)
{
    private HashSet<long>? _beyond;

    public long Through { get; private set; } = through;

    public int SingleNumbers => _beyond?.Count ?? 0;

    public bool Contains(long number) => number >= from && (number <= Through || (_beyond is not null && _beyond.Contains(number)));

    /// <summary>True when the number is in the run, or close enough above it to continue it.</summary>
    public bool Reaches(long number) => number >= from && number - Through <= maxGap;

    public void AddThrough(long number)
    {
        var before = Through;
        Through = Math.Max(before, number);
        if (_beyond is null)
            return;
        // Whichever looks at fewer: a frame that comes again may have tens of thousands of both.
        if (Through - before < _beyond.Count)
        {
            for (var passed = before + 1; passed <= Through; passed++)
                _beyond.Remove(passed);
        }
        else
        {
            _beyond.RemoveWhere(beyond => beyond <= Through);
        }

        if (_beyond.Count == 0)
            _beyond = null;
    }

    public void AddBeyond(long number)
    {
        if (number > Through)
            (_beyond ??= []).Add(number);
    }
}
