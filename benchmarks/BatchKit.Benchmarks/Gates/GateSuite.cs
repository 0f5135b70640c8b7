namespace BatchKit.Benchmarks.Gates;

/// <summary>The bars that are measured in one go, and how.</summary>
internal sealed record GateSuite
{
    /// <summary>The benchmark classes whose tables are part of the suite's results.</summary>
    public required IReadOnlyList<string> Classes { get; init; }

    /// <summary>How often the benchmarks run in turn. A gate's figure is the median of its rounds', so that a noisy minute spoils one of them.</summary>
    public int Rounds { get; init; } = 3;

    /// <summary>Enough of them for the compiler's last tier, which comes some 100 ms after the first.</summary>
    public required int WarmupIterations { get; init; }

    public required int Iterations { get; init; }

    /// <summary>Short, so that on a busy machine some are not interrupted. A broadcast takes what it takes.</summary>
    public int IterationMilliseconds { get; init; }

    public required IReadOnlyList<Gate> Gates { get; init; }

    public IEnumerable<string> Benchmarks => Gates.SelectMany(gate => gate.Benchmarks).Distinct(StringComparer.Ordinal);
}
