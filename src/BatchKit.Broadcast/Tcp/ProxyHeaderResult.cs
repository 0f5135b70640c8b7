namespace BatchKit.Broadcast.Tcp;

/// <summary>What the first bytes from a proxy are.</summary>
internal enum ProxyHeaderResult
{
    /// <summary>The start of a header, as far as can be seen.</summary>
    Incomplete = 0,

    /// <summary>A header.</summary>
    Complete = 1,

    /// <summary>None that is understood, or one that is too long.</summary>
    Malformed = 2,
}
