namespace BatchKit.Benchmarks.Gates;

/// <summary>What one round measured of one benchmark.</summary>
internal sealed class GateReading
{
    private readonly Dictionary<GateMetric, double> _values = [];

    /// <summary>All that was measured.</summary>
    public IReadOnlyDictionary<GateMetric, double> Values => _values;

    /// <exception cref="InvalidOperationException">The benchmark does not measure that.</exception>
    public double this[GateMetric metric]
    {
        get => _values.TryGetValue(metric, out var value) ? value : throw new InvalidOperationException($"A gate's benchmark has no {metric}.");
        init => _values[metric] = value;
    }
}
