using System.CommandLine;
using BatchKit.Benchmarks.Configuration;
using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Reports;

namespace BatchKit.Benchmarks;

/// <summary><c>init results</c>: makes a file of gates from what a run measured.</summary>
internal static class InitCommand
{
    private static readonly Argument<string> Results = new("results") { Description = "BenchmarkDotNet.Artifacts of a run with --exporters json, or its folder results." };

    private static readonly Option<string> Out = new("--out") { Description = "The file to write.", HelpName = "file", DefaultValueFactory = static _ => "gates.json" };

    private static readonly Option<string?> Project = new("--project") { Description = "The project that gate is to run; its path begins in the folder of the file.", HelpName = "path" };

    private static readonly Option<string[]> Baselines = new("--baseline")
    {
        Description = "What times are divided by, as Method or Class.Method; several for several classes. The first benchmark of a class when left out.",
        HelpName = "method",
        DefaultValueFactory = static _ => [],
    };

    private static readonly Option<bool> Force = new("--force") { Description = "Writes over a file that exists." };

    public static Command Create()
    {
        var command = new Command("init", "Makes gates from results: each time as a ratio to its class's baseline, at most 1.5 times as measured, and the allocated bytes exactly.") { Results, Out, Project, Baselines, Force };
        command.SetAction(Run);
        return command;
    }

    private static int Run(ParseResult parsed)
    {
        var path = parsed.GetValue(Out)!;
        if (Directory.Exists(path))
            throw new UsageException($"{Out.Name}: {path} is a folder. Name a file in it.");
        if (File.Exists(path) && !parsed.GetValue(Force))
            throw new UsageException($"{path} exists. Give --force to write over it, or another file with --out.");
        var rows = ReportFolder.Read(parsed.GetValue(Results)!).Rows;
        var baselines = parsed.GetValue(Baselines)!;
        if (baselines.FirstOrDefault(baseline => !rows.Any(row => row.IsOf(baseline))) is { } unknown)
            throw new UsageException($"The results have no benchmark {unknown}. They have: {string.Join("; ", rows.Select(static row => row.Name))}.");

        var suites = new Dictionary<string, GateSuite>(StringComparer.Ordinal);
        foreach (var ofClass in rows.GroupBy(static row => row.Class, StringComparer.Ordinal))
        {
            var baseline = ofClass.FirstOrDefault(row => baselines.Any(row.IsOf)) ?? ofClass.First();
            var gates = MeasuredGates.From([.. ofClass], baseline.Method);
            if (gates.Count == 0)
                continue;
            suites[ofClass.Key] = new GateSuite { Project = parsed.GetValue(Project), Gates = gates };
            Console.WriteLine($"{ofClass.Key}: {gates.Count} gates; times are ratios to {baseline.Method}.");
        }

        if (suites.Count == 0)
            throw new UsageException("The results have no two benchmarks to compare and no allocated bytes: a gate would have nothing to hold.");
        OutPath.Write(path, () => GateFile.Write(path, suites), static (text, _) => new UsageException(text));
        Console.WriteLine($"{path} written.");
        return ExitCodes.Done;
    }
}
