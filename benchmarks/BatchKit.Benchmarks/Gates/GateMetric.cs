namespace BatchKit.Benchmarks.Gates;

/// <summary>What a gate compares.</summary>
internal enum GateMetric
{
    /// <summary>Nanoseconds of an operation: the lower quartile of the iterations.</summary>
    Time = 0,

    /// <summary>The bytes that an operation allocates, on all threads of the process.</summary>
    Allocated = 1,

    /// <summary>Milliseconds from the start of a broadcast until the last subscriber has read its last byte: the lower quartile.</summary>
    LastByte = 2,

    /// <summary>Milliseconds until who broadcasts can go on: the lower quartile.</summary>
    Call = 3,

    /// <summary>Milliseconds of processor time that a broadcast costs the server.</summary>
    Processor = 4,

    /// <summary>Messages a second.</summary>
    Rate = 5,

    /// <summary>Collections of generation 2 a second.</summary>
    Gen2 = 6,

    /// <summary>Memory as a multiple: that at a long run's end of that after a quarter of it, or that of a server under attack of what it has when it is idle.</summary>
    Growth = 7,

    /// <summary>Milliseconds from when a message was due until it was there, for half of all messages.</summary>
    Median = 8,

    /// <summary>The same for 99 of 100.</summary>
    NinetyNine = 9,

    /// <summary>Messages that did not come.</summary>
    Lost = 10,

    /// <summary>Statements a second that a server runs.</summary>
    Statements = 11,

    /// <summary>Milliseconds from the start of a storm until its last client is greeted.</summary>
    Greeted = 12,

    /// <summary>How often the system found a listener's queue full.</summary>
    Overflows = 13,

    /// <summary>Bytes of resident memory a client, behind a collection.</summary>
    Resident = 14,

    /// <summary>Bytes that a receiver gets from its broker.</summary>
    Received = 15,

    /// <summary>Frames that a receiver gets from its broker.</summary>
    Frames = 16,

    /// <summary>Messages that a server gives Redis to publish.</summary>
    Published = 17,

    /// <summary>Buffers that a server reads for a task.</summary>
    Buffers = 18,

    /// <summary>Connections that a server has.</summary>
    Connections = 19,

    /// <summary>Bytes of memory that are held for a client.</summary>
    Held = 20,

    /// <summary>Lines that a client reads, at most, from when a newer value was written until it has read the older one.</summary>
    Stale = 21,
}
