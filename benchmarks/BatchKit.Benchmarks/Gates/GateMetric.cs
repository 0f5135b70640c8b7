namespace BatchKit.Benchmarks.Gates;

/// <summary>What a gate compares.</summary>
internal enum GateMetric
{
    /// <summary>The time of an operation: the lower quartile of the iterations.</summary>
    Time = 0,

    /// <summary>The bytes that an operation allocates, on all threads of the process.</summary>
    Allocated = 1,
}
