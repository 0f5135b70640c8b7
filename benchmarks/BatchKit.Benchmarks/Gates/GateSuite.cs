using System.Text.Json.Serialization;

namespace BatchKit.Benchmarks.Gates;

/// <summary>The bars that are measured in one go, and how.</summary>
internal sealed record GateSuite
{
    /// <summary>The benchmark classes of this program whose tables are part of the suite's results.</summary>
    public IReadOnlyList<string> Classes { get; init; } = [];

    /// <summary>A project of BenchmarkDotNet's that is run instead; its path begins in the folder of the file.</summary>
    public string? Project { get; init; }

    /// <summary>What the project gets beside the filter, such as <c>--job short</c>.</summary>
    public IReadOnlyList<string> Arguments { get; init; } = [];

    /// <summary>Folders of BenchmarkDotNet's results that are read instead, each as a round.</summary>
    public IReadOnlyList<string> Results { get; init; } = [];

    /// <summary>How often the benchmarks run in turn. A gate's figure is the median of its rounds', so that a noisy minute spoils one of them.</summary>
    public int Rounds { get; init; } = 3;

    /// <summary>Before the iterations of each round: the memory and the connections of a row are new.</summary>
    public int WarmupIterations { get; init; }

    public int Iterations { get; init; }

    /// <summary>Short, so that on a busy machine some are not interrupted. A broadcast takes what it takes.</summary>
    public int IterationMilliseconds { get; init; }

    public required IReadOnlyList<Gate> Gates { get; init; }

    [JsonIgnore]
    public IEnumerable<string> Benchmarks => Gates.SelectMany(gate => gate.Benchmarks).Distinct(StringComparer.Ordinal);

    /// <summary>Whether the benchmarks are those of a user's project.</summary>
    public bool IsForeign => Project is not null || Results.Count > 0;

    /// <summary>Refuses gates of benchmarks that its runner does not know.</summary>
    /// <exception cref="InvalidOperationException">There is one.</exception>
    public void RefuseUnknown(Func<string, bool> isKnown)
    {
        if (Benchmarks.FirstOrDefault(name => !isKnown(name)) is { } unknown)
            throw new InvalidOperationException($"gates.json names a benchmark that does not exist: {unknown}.");
    }
}
