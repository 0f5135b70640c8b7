namespace BatchKit.Transports;

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
