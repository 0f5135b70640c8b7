namespace BatchKit.Benchmarks.Gates;

/// <summary>What the rounds of a suite measured.</summary>
/// <param name="writeTables">Writes the full tables, in Markdown.</param>
internal sealed class SuiteReadings(Action<TextWriter> writeTables)
{
    private readonly Dictionary<string, List<GateReading>> _readings = [];
    private readonly Dictionary<string, string> _missing = [];

    public void Add(string benchmark, GateReading reading)
    {
        if (!_readings.TryGetValue(benchmark, out var readings))
            _readings[benchmark] = readings = [];
        readings.Add(reading);
    }

    /// <summary>The readings of each benchmark, by rounds.</summary>
    public IReadOnlyDictionary<string, List<GateReading>> All => _readings;

    /// <summary>Says why a benchmark can't run on this machine.</summary>
    public void Leave(string benchmark, string reason) => _missing[benchmark] = reason;

    public void WriteTables(TextWriter writer) => writeTables(writer);

    /// <summary>Refuses gates of benchmarks that none of these readings is of. Parameters are not compared: a short run leaves some out.</summary>
    /// <exception cref="InvalidOperationException">A gate names a benchmark that does not exist.</exception>
    public void RefuseUnknown(GateSuite suite)
    {
        var known = _readings.Keys.Concat(_missing.Keys).Select(Gate.MethodOf).ToHashSet(StringComparer.Ordinal);
        suite.RefuseUnknown(name => known.Contains(Gate.MethodOf(name)));
    }

    public GateResult Compare(Gate gate)
    {
        foreach (var benchmark in gate.Benchmarks)
        {
            if (_missing.TryGetValue(benchmark, out var reason))
                return new GateResult(gate, []) { WhyMissing = reason };
        }

        var numerators = Of(gate.Numerator).Select(reading => reading[gate.Metric]);
        return new GateResult(gate, [.. gate.Denominator is null
            ? numerators.Select(value => value / gate.Messages)
            : numerators.Zip(Of(gate.Denominator), (value, other) => Ratio(value, other[gate.DenominatorMetric ?? gate.Metric]))]);
    }

    // Two that allocate nothing are equal.
    private static double Ratio(double value, double other) => value == other ? 1 : value / other;

    private List<GateReading> Of(string benchmark) => _readings.TryGetValue(benchmark, out var readings)
        ? readings
        : throw new InvalidOperationException($"gates.json names a benchmark that does not exist: {benchmark}.");
}
