using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Measuring;

namespace BatchKit.Benchmarks.Edge;

/// <summary>What strangers can do to a server: what they sent, and what it cost.</summary>
/// <remarks>Its own loop and not BenchmarkDotNet's: servers and load are processes of their own. To add rows, add a stage.</remarks>
internal sealed class EdgeBenchmarks : ISuiteRunner
{
    private const int FewClients = 100;
    private const int IdleClients = 10_000;

    private readonly List<IEdgeStage> _stages = [];

    /// <summary>How many clients a storm has.</summary>
    public int Clients { get; init; } = 15_000;

    /// <summary>True to run everything with few clients, to see that it works.</summary>
    public bool IsShort { get; init; }

    public SuiteReadings Measure(GateSuite suite, bool everything)
    {
        var clients = IsShort ? FewClients : Clients;
        Machine.Require(clients);
        _stages.Add(new StormStage(clients));
        _stages.Add(new IdleStage(Math.Min(clients, IdleClients), IsShort));
        _stages.Add(new HostileStage(IsShort, measuresEachAlone: everything));
        var readings = new SuiteReadings(WriteTables);
        var known = _stages.SelectMany(stage => stage.Names).ToHashSet(StringComparer.Ordinal);
        suite.RefuseUnknown(known.Contains);
        for (var round = 1; round <= suite.Rounds; round++)
        {
            Console.Error.WriteLine($"round {round} of {suite.Rounds}");
            foreach (var stage in _stages.Where(stage => round <= stage.MaxRounds))
                stage.Measure(readings);
        }

        return readings;
    }

    private void WriteTables(TextWriter writer)
    {
        MarkdownTable.WriteMachine(writer);
        foreach (var stage in _stages)
            stage.WriteTables(writer);
    }
}

/// <summary>Rows of the suite that have a table together.</summary>
internal interface IEdgeStage
{
    /// <summary>The names of its rows, as gates name them.</summary>
    IEnumerable<string> Names { get; }

    /// <summary>In how many rounds it is measured at most.</summary>
    int MaxRounds { get; }

    /// <summary>Runs each row once, and adds what it measured.</summary>
    void Measure(SuiteReadings readings);

    void WriteTables(TextWriter writer);
}
