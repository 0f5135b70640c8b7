namespace BatchKit;

/// <summary>Why a batch was sealed and queued.</summary>
public enum FlushReason
{
    /// <summary>The outermost buffering scope closed.</summary>
    ScopeClosed = 0,

    /// <summary>It was written outside any scope, and its partition's sender took it.</summary>
    Unscoped = 1,

    /// <summary>Its linger was over.</summary>
    Linger = 2,

    /// <summary>The next message would have gone past the batch's limit of bytes or messages.</summary>
    BatchFull = 3,

    /// <summary>FlushAsync asked for it.</summary>
    Requested = 4,

    /// <summary>A scope opened, and what was written before it must not wait for it.</summary>
    ScopeOpened = 5,

    /// <summary>A scope was older than its limit and was closed by the watch.</summary>
    ScopeExpired = 6,

    /// <summary>A writer waits for capacity, so nothing is held back.</summary>
    CapacityNeeded = 7,

    /// <summary>The buffer stops and drains.</summary>
    Drain = 8,

    /// <summary>The scope's own limit passed; the scope goes on.</summary>
    HoldLimit = 9,

    /// <summary>The same ambient scope wrote to another handle next: order holds across handles, so what follows needs a batch behind that output.</summary>
    Interleaved = 10,
}
