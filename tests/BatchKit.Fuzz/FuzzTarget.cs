using BatchKit.Fuzz.Targets;

namespace BatchKit.Fuzz;

/// <summary>A parser, by the name of its folder in the corpus.</summary>
public static class FuzzTarget
{
    private static readonly Dictionary<string, Action<byte[]>> All = new(StringComparer.Ordinal)
    {
        ["frame"] = FrameTarget.Run,
        ["mqtt"] = MqttTarget.Run,
        ["telnet"] = TelnetTarget.Run,
        ["websocket"] = WebSocketTarget.Run,
        ["proxy"] = ProxyTarget.Run,
    };

    /// <summary>The names of all.</summary>
    public static IReadOnlyCollection<string> Names => All.Keys;

    /// <summary>Gives a parser one input. Anything that it throws is a defect of the parser.</summary>
    /// <param name="name">The parser's name.</param>
    /// <param name="input">The input; the parser may change it.</param>
    /// <exception cref="ArgumentException">There is no such parser.</exception>
    public static void Run(string name, byte[] input)
    {
        ArgumentNullException.ThrowIfNull(input);
        if (!All.TryGetValue(name, out var run))
            throw new ArgumentException($"There is no target '{name}'. There are: {string.Join(", ", Names)}.", nameof(name));
        run(input);
    }

    /// <summary>The inputs that are kept for a parser, by file.</summary>
    /// <param name="name">The parser's name.</param>
    public static IReadOnlyList<string> FindCorpus(string name) => [.. Directory.EnumerateFiles(Path.Combine(AppContext.BaseDirectory, "Corpus", name)).Order(StringComparer.Ordinal)];

    /// <summary>Says that a parser broke a rule.</summary>
    internal static void Require(bool isSo, string rule)
    {
        if (!isSo)
            throw new InvalidOperationException($"Broken: {rule}");
    }
}
