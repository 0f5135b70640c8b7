namespace BatchKit.Transports;

/// <summary>Remembers what was seen of each producer, for a limited number of them and a limited time. One caller at a time.</summary>
internal sealed class DuplicateFilter(TimeProvider timeProvider, TimeSpan expiry, int maxProducers)
{
    private readonly Dictionary<ProducerId, LinkedListNode<SeenNumbers>> _nodes = [];
    // The one used last comes first, so those that expire or have to go are at the end.
    private readonly LinkedList<SeenNumbers> _byUse = new();

    public int Count => _nodes.Count;

    /// <summary>What was seen of a producer. Allocates only for one that is not remembered.</summary>
    public SeenNumbers Of(ProducerId producer)
    {
        var now = timeProvider.GetTimestamp();
        while (_byUse.Last is { } oldest && timeProvider.GetElapsedTime(oldest.Value.LastUsed, now) > expiry)
            Forget(oldest);
        if (!_nodes.TryGetValue(producer, out var node))
            node = Remember(producer);
        else if (node != _byUse.First)
            MoveToFront(node);
        node.Value.LastUsed = now;
        return node.Value;
    }

    private LinkedListNode<SeenNumbers> Remember(ProducerId producer)
    {
        if (_nodes.Count >= maxProducers && _byUse.Last is { } oldest)
            Forget(oldest);
        var node = _byUse.AddFirst(new SeenNumbers(producer));
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

/// <summary>Which of a producer's batches the next hop has: all up to a number, and now and then a few beyond it.</summary>
internal sealed class SeenNumbers(ProducerId producer)
{
    private long _through;
    private HashSet<long>? _beyond;

    public ProducerId Producer { get; } = producer;

    public long LastUsed { get; set; }

    public bool Contains(long number) => number <= _through || (_beyond is not null && _beyond.Contains(number));

    /// <summary>This number and all below it are settled.</summary>
    public void AddThrough(long number)
    {
        _through = Math.Max(_through, number);
        if (_beyond is null)
            return;
        _beyond.RemoveWhere(beyond => beyond <= _through);
        if (_beyond.Count == 0)
            _beyond = null;
    }

    /// <summary>This number is settled and one below it is not: what is left of a frame that was abandoned half-way.</summary>
    public void AddBeyond(long number) => (_beyond ??= []).Add(number);
}
