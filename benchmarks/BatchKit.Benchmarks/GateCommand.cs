using System.CommandLine;
using BatchKit.Benchmarks.Configuration;
using BatchKit.Benchmarks.Gates;

namespace BatchKit.Benchmarks;

/// <summary><c>gate [gates.json] [suite…]</c>: checks the limits in a file.</summary>
internal static class GateCommand
{
    private static readonly Argument<string[]> Names = new("gates")
    {
        Description = "A file of gates, if it ends in .json, and the suites to hold; all suites when there are none, the gates of BatchKit itself when there is no file.",
        Arity = ArgumentArity.ZeroOrMore,
        HelpName = "gates.json or suite",
    };

    private static readonly Option<string?> Project = new("--project") { Description = "The BenchmarkDotNet project to run, in place of what the file names.", HelpName = "path" };

    private static readonly Option<string[]> Results = new("--results")
    {
        Description = "A folder with BenchmarkDotNet's JSON reports to compare, as one round; several for several rounds. Nothing is run.",
        HelpName = "folder",
        DefaultValueFactory = static _ => [],
    };

    private static readonly Option<int?> Rounds = ParsedOptions.Number("--rounds", "How often everything runs, in place of what the file says.", 1, 1000);

    private static readonly Option<string?> Out = new("--out") { Description = "Writes a suite's gates and tables as <suite>.md and its gates as <suite>.json into this folder.", HelpName = "folder" };

    public static Command Create()
    {
        var command = new Command("gate", "Measures, checks the limits in a file, and exits with 1 if one fails.") { Names, Project, Results, Rounds, Out };
        command.SetAction(RunAsync);
        return command;
    }

    private static async Task<int> RunAsync(ParseResult parsed, CancellationToken cancellationToken)
    {
        var names = parsed.GetValue(Names)!;
        var file = names.FirstOrDefault(static name => name.EndsWith(".json", StringComparison.OrdinalIgnoreCase));
        if (file is not null && !File.Exists(file))
            throw new UsageException($"There is no file {file}.");
        var suites = file is null ? GateFile.Read() : GateFile.Read(file);
        var chosen = names.Where(name => name != file).ToArray();
        if (chosen.FirstOrDefault(name => !suites.ContainsKey(name)) is { } unknown)
            throw new UsageException($"There is no suite '{unknown}'. There are: {string.Join(", ", suites.Keys)}.");

        var folder = file is null ? "." : Path.GetDirectoryName(Path.GetFullPath(file))!;
        OutPath.Require(parsed.GetValue(Out));
        var isOk = true;
        foreach (var name in chosen.Length == 0 ? [.. suites.Keys] : chosen)
        {
            var suite = Override(suites[name], parsed);
            isOk &= await RunSuiteAsync(name, suite, SuiteRunners.For(name, suite, folder, cancellationToken), parsed.GetValue(Out));
        }

        return isOk ? ExitCodes.Done : ExitCodes.Failed;
    }

    // What the command line says holds, and begins in the folder where it was said.
    private static GateSuite Override(GateSuite suite, ParseResult parsed)
    {
        var results = parsed.GetValue(Results)!;
        var project = parsed.GetValue(Project);
        if (results.Length > 0 && project is not null)
            throw new UsageException("Give --project or --results: a project is run, results are only read.");
        suite = suite with { Rounds = parsed.GetValue(Rounds) ?? suite.Rounds };
        if (results.Length > 0)
            return suite with { Results = [.. results.Select(Path.GetFullPath)] };
        return project is null ? suite : suite with { Project = Path.GetFullPath(project), Results = [] };
    }

    private static async Task<bool> RunSuiteAsync(string name, GateSuite suite, ISuiteRunner runner, string? folder)
    {
        Console.WriteLine($"{name}:");
        var readings = await SuiteMeasuring.RunAsync(runner, suite, everything: folder is not null);
        var results = suite.Gates.Select(readings.Compare).ToArray();
        var width = results.Max(result => result.Gate.Name.Length);
        foreach (var result in results)
            Console.WriteLine($"  {result.Gate.Name.PadRight(width)}  {result.Figure,12}  {result.Bound,12}  {result.Verdict}");
        if (folder is not null)
            OutPath.Write(folder, () => ResultFile.Write(folder, name, suite, results, readings));
        return results.All(result => result.IsOk);
    }
}
