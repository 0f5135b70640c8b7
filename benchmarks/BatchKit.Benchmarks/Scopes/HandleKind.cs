namespace BatchKit.Benchmarks.Scopes;

/// <summary>What the handles of a benchmark are.</summary>
public enum HandleKind
{
    /// <summary>Connections: numbers.</summary>
    Number = 0,

    /// <summary>Named destinations.</summary>
    Name = 1,
}
