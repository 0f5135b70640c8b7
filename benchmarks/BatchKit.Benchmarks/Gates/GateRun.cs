using System.Reflection;
using BatchKit.Benchmarks.Brokers;
using BatchKit.Benchmarks.Configuration;
using BatchKit.TestServers.RabbitMQ;
using BenchmarkDotNet.Reports;
using BenchmarkDotNet.Running;

namespace BatchKit.Benchmarks.Gates;

/// <summary>Runs a suite's benchmarks in rounds, and collects what its gates compare.</summary>
internal sealed class GateRun(GateSuite suite)
{
    private readonly Dictionary<string, List<GateReading>> _readings = [];
    private readonly HashSet<string> _gated = [.. suite.Benchmarks];

    /// <summary>The tables of the first round.</summary>
    public IReadOnlyList<Summary> Summaries { get; private set; } = [];

    /// <summary>Measures.</summary>
    /// <param name="everything">Run the suite's other benchmarks too, once, for the tables.</param>
    /// <exception cref="InvalidOperationException">A benchmark is unknown or failed.</exception>
    public IReadOnlyList<GateResult> Measure(bool everything)
    {
        RefuseUnknown();
        RefuseWithoutBroker();
        for (var round = 1; round <= suite.Rounds; round++)
        {
            Console.Error.WriteLine($"round {round} of {suite.Rounds}");
            var summaries = RunRound(everything && round == 1);
            if (round == 1)
                Summaries = summaries;
        }

        return [.. suite.Gates.Select(Compare)];
    }

    private Summary[] RunRound(bool everything)
    {
        var config = RunConfiguration.ForGates(suite);
        var runs = Catalog.Find(suite.Classes, config, name => everything || _gated.Contains(name));
        var summaries = BenchmarkRunner.Run(runs);
        foreach (var report in summaries.SelectMany(summary => summary.Reports))
        {
            var name = Catalog.NameOf(report.BenchmarkCase);
            if (GateReading.From(report) is not { } reading)
                throw new InvalidOperationException($"{name} failed; its output is in {summaries[0].LogFilePath}.");
            if (!_readings.TryGetValue(name, out var readings))
                _readings[name] = readings = [];
            readings.Add(reading);
        }

        return summaries;
    }

    private GateResult Compare(Gate gate)
    {
        var numerators = _readings[gate.Numerator].Select(reading => reading[gate.Metric]);
        return new GateResult(gate, [.. gate.Denominator is null
            ? numerators.Select(value => value / gate.Messages)
            : numerators.Zip(_readings[gate.Denominator], (value, other) => value / other[gate.Metric])]);
    }

    private void RefuseUnknown()
    {
        var known = Catalog.Find(suite.Classes, RunConfiguration.ForGates(suite), _ => true)
            .SelectMany(run => run.BenchmarksCases).Select(Catalog.NameOf).ToHashSet(StringComparer.Ordinal);
        var unknown = _gated.Where(name => !known.Contains(name)).ToArray();
        if (unknown.Length > 0)
            throw new InvalidOperationException($"gates.json names benchmarks that do not exist: {string.Join("; ", unknown)}.");
    }

    private void RefuseWithoutBroker()
    {
        var isNeeded = Catalog.Classes.Any(type =>
            suite.Classes.Contains(type.Name, StringComparer.Ordinal) && type.GetCustomAttribute<NeedsRabbitMqAttribute>() is not null);
        if (isNeeded && RabbitMqServer.WhyMissing is { } reason)
            throw new InvalidOperationException(reason);
    }
}
