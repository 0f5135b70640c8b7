using System.Text.RegularExpressions;

namespace BatchKit.Benchmarks.Figures;

/// <summary>What a suite's result file says of each gate: its figure without the x of a ratio, such as <c>0.81</c> or <c>1060 B</c>.</summary>
internal sealed partial class ResultFigures
{
    private readonly Dictionary<string, string> _figures = new(StringComparer.Ordinal);
    private readonly string _suite;

    public ResultFigures(string suite, string text)
    {
        _suite = suite;
        foreach (var match in Row.Matches(text).AsEnumerable())
            _figures[match.Groups["name"].Value] = match.Groups["figure"].Value.TrimEnd('x');
    }

    /// <summary>The figure of a gate; null when it has not been measured since it is a gate.</summary>
    public string? Find(string gate) => _figures.GetValueOrDefault(gate);

    /// <exception cref="InvalidDataException">The gate is not in the results.</exception>
    public string Get(string gate) => Find(gate) ?? throw new InvalidDataException($"benchmarks/results/{_suite}.md has no gate '{gate}'.");

    [GeneratedRegex(@"^\| (?<name>[^|]+) \| (?<figure>[0-9][^|]*) \| [^|]* \| [<>]= [^|]* \| [^|]* \|\r?$", RegexOptions.Multiline | RegexOptions.ExplicitCapture, 10_000)]
    private static partial Regex Row { get; }
}
