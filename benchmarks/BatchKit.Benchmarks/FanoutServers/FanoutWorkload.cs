namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>What a server is told to send.</summary>
internal enum FanoutWorkload
{
    /// <summary>One message to everybody.</summary>
    Message = 0,

    /// <summary>Ten messages to everybody, each when the one before is sent.</summary>
    TenMessages = 1,

    /// <summary>Ten messages to everybody in one buffering scope.</summary>
    TenInOneScope = 2,

    /// <summary>One message to each of 50 groups, of which everybody is in one, in one buffering scope.</summary>
    FiftyGroups = 3,
}
