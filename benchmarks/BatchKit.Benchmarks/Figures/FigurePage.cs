using System.Globalization;
using System.Text;
using System.Text.RegularExpressions;
using BatchKit.Benchmarks.Gates;

namespace BatchKit.Benchmarks.Figures;

/// <summary>Writes the figures of results between the markers of a page.</summary>
/// <remarks>
/// <c>&lt;!-- figures scope --&gt;</c>, a table and <c>&lt;!-- end of figures --&gt;</c>: the gates of the suite that have a line for the page. <c>&lt;!-- figure scope: name --&gt;2.3&lt;!-- end --&gt;</c>: one figure within a line.
/// </remarks>
/// <param name="suites">The gates.</param>
/// <param name="readResults">Reads the result file of a suite.</param>
internal sealed partial class FigurePage(IReadOnlyDictionary<string, GateSuite> suites, Func<string, string> readResults)
{
    private const double FirstWhole = 10;

    private readonly Dictionary<string, ResultFigures> _results = new(StringComparer.Ordinal);

    /// <summary>The page with the present figures.</summary>
    /// <exception cref="InvalidDataException">A marker names no suite or no gate.</exception>
    public string Update(string page)
    {
        var withTables = Table.Replace(page, match => $"{match.Groups["begin"].Value}\n{WriteTable(match.Groups["suite"].Value)}{match.Groups["end"].Value}");
        return Figure.Replace(withTables, match => $"{match.Groups["begin"].Value}{ForText(Of(match.Groups["suite"].Value).Get(match.Groups["name"].Value))}{match.Groups["end"].Value}");
    }

    private static string Bound(Gate gate) => GateResult.BoundOf(gate).Replace("<=", "≤", StringComparison.Ordinal).Replace(">=", "≥", StringComparison.Ordinal).TrimEnd('x');

    // In a sentence, 71.54 times is 72 times.
    private static string ForText(string figure) =>
        double.TryParse(figure, NumberStyles.Float, CultureInfo.InvariantCulture, out var value) && value >= FirstWhole ? value.ToString("0", CultureInfo.InvariantCulture) : figure;

    private string WriteTable(string suite)
    {
        var results = Of(suite);
        var table = new StringBuilder("| what | measured | bar |\n|---|---:|---:|\n");
        foreach (var gate in suites[suite].Gates.Where(static gate => gate.Page is not null))
            table.Append(CultureInfo.InvariantCulture, $"| {gate.Page} | {Show(gate, results.Find(gate.Name))} | {Bound(gate)} |\n");
        return table.ToString();
    }

    // A figure that misses its bar stands out.
    private static string Show(Gate gate, string? figure)
    {
        if (figure is null)
            return "not yet";
        var number = Number.Match(figure).Value;
        return gate.Holds(double.Parse(number, CultureInfo.InvariantCulture)) ? figure : $"**{figure}**";
    }

    private ResultFigures Of(string suite)
    {
        if (!suites.ContainsKey(suite))
            throw new InvalidDataException($"There is no suite '{suite}'.");
        if (!_results.TryGetValue(suite, out var results))
            _results[suite] = results = new ResultFigures(suite, readResults(suite));
        return results;
    }

    [GeneratedRegex(@"(?<begin><!-- figures (?<suite>\w+) -->)\n(.*?)(?<end><!-- end of figures -->)", RegexOptions.Singleline | RegexOptions.ExplicitCapture, 10_000)]
    private static partial Regex Table { get; }

    [GeneratedRegex("(?<begin><!-- figure (?<suite>\\w+): (?<name>[^>]+) -->)[^<]*(?<end><!-- end -->)", RegexOptions.ExplicitCapture, 10_000)]
    private static partial Regex Figure { get; }

    [GeneratedRegex(@"^[0-9.]+", RegexOptions.ExplicitCapture, 10_000)]
    private static partial Regex Number { get; }
}
