namespace BatchKit.Benchmarks.Rhythm;

/// <summary>Rows that are compared with one another.</summary>
internal enum RateGroup
{
    /// <summary>Into the table.</summary>
    Enqueue = 0,

    /// <summary>Out of the table, by handlers that do nothing.</summary>
    Drain = 1,

    /// <summary>Out of the table, by handlers that take 2 ms a task.</summary>
    Work = 2,

    /// <summary>Both.</summary>
    EndToEnd = 3,
}
