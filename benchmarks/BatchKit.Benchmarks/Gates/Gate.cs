using System.Text.Json.Serialization;

namespace BatchKit.Benchmarks.Gates;

/// <summary>A bar: a ratio between two benchmarks of one run or, without a denominator, a figure of one.</summary>
internal sealed record Gate
{
    /// <summary>What the bar says, in a few words; unique in its suite.</summary>
    public required string Name { get; init; }

    /// <summary>A benchmark as <c>Class.Method</c>, with its parameters as <c>[Name=value, …]</c> where it has any.</summary>
    public required string Numerator { get; init; }

    public string? Denominator { get; init; }

    public GateMetric Metric { get; init; }

    /// <summary>What is compared of the denominator; the same metric by default.</summary>
    public GateMetric? DenominatorMetric { get; init; }

    /// <summary>How many messages an operation has: what a figure without a denominator is divided by.</summary>
    public int Messages { get; init; } = 1;

    public double? Max { get; init; }

    public double? Min { get; init; }

    /// <summary>What a quiet machine measured; a time is a lower quartile. <see cref="GateRule"/> says how far from it the bar may stand.</summary>
    public double? Quiet { get; init; }

    /// <summary>Why the bar stands further from the quiet machine's figure than the rule allows, or is an absolute time or rate: what was tried.</summary>
    public string? Exception { get; init; }

    /// <summary>Why the bar is where it is.</summary>
    public string? Note { get; init; }

    /// <summary>What benchmarks/figures.md says of it; null for a gate that the page leaves out.</summary>
    public string? Page { get; init; }

    [JsonIgnore]
    public IEnumerable<string> Benchmarks => Denominator is null ? [Numerator] : [Numerator, Denominator];

    public bool IsRatio => Denominator is not null;

    /// <summary>A benchmark's name without its parameters. A generic class may have brackets too, as <c>Codec&lt;Byte[]&gt;.Encode[Size=10]</c> has.</summary>
    public static string MethodOf(string benchmark)
    {
        var (end, depth) = (0, 0);
        while (end < benchmark.Length && (depth > 0 || benchmark[end] != '['))
            depth += benchmark[end++] switch { '<' => 1, '>' => -1, _ => 0 };
        return benchmark[..end];
    }

    /// <summary>Two decimals are compared: an object in every thousandth operation shows, the runtime's own few bytes do not. What is no number holds nothing.</summary>
    public bool Holds(double measured)
    {
        var rounded = Math.Round(measured, 2);
        return (Max is null || rounded <= Max) && (Min is null || rounded >= Min);
    }
}
