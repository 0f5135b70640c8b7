namespace BatchKit.Benchmarks.Rhythm;

/// <summary>How a task comes from who enqueues it to a handler.</summary>
internal enum LatencyWay
{
    /// <summary>BatchKit at both ends.</summary>
    Listening,

    /// <summary>An insert, a NOTIFY, a listener and DELETE … RETURNING, with nothing around them: what is to be paid in any case.</summary>
    ByHand,

    /// <summary>BatchKit's enqueueing, and workers that poll.</summary>
    Polling,
}
