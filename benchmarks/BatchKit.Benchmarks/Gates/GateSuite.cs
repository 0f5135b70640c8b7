namespace BatchKit.Benchmarks.Gates;

/// <summary>The bars that are measured in one go, and how.</summary>
internal sealed record GateSuite
{
    /// <summary>The benchmark classes whose tables are part of the suite's results.</summary>
    public required IReadOnlyList<string> Classes { get; init; }

    /// <summary>How often the benchmarks run in turn. A gate's figure is the median of its rounds', so that a noisy minute spoils one of them.</summary>
    public int Rounds { get; init; } = 3;

    public int WarmupIterations { get; init; } = 6;

    public int Iterations { get; init; } = 9;

    public int IterationMilliseconds { get; init; } = 100;

    public required IReadOnlyList<Gate> Gates { get; init; }

    public IEnumerable<string> Benchmarks => Gates.SelectMany(gate => new[] { gate.Numerator, gate.Denominator }).OfType<string>().Distinct(StringComparer.Ordinal);
}
