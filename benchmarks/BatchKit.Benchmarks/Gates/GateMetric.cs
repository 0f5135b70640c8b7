namespace BatchKit.Benchmarks.Gates;

/// <summary>What a gate compares.</summary>
internal enum GateMetric
{
    /// <summary>The median time of an operation.</summary>
    Time = 0,

    /// <summary>The bytes that an operation allocates, on all threads of the process.</summary>
    Allocated = 1,
}
