namespace BatchKit.Benchmarks.HubNodes;

/// <summary>How a hub's messages to a group are sent.</summary>
internal enum HubSending
{
    /// <summary>Each is awaited before the next.</summary>
    Awaited = 0,

    /// <summary>All are begun, then awaited together.</summary>
    WhenAll = 1,

    /// <summary>Each is awaited, in one scope of BatchKit's.</summary>
    Scope = 2,
}
