namespace BatchKit.Buffering;

/// <summary>Where a scope was opened that the watch closed.</summary>
internal readonly record struct ExpiredScope(string OpenerFile, int OpenerLine);
