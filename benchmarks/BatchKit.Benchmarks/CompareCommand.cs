using System.CommandLine;
using System.Globalization;
using BatchKit.Benchmarks.Comparing;
using BatchKit.Benchmarks.Projects;

namespace BatchKit.Benchmarks;

/// <summary><c>compare A B</c>: whether a commit is slower than another.</summary>
internal static class CompareCommand
{
    private const double SlowerAbove = 1.03;
    private const int DefaultRounds = 10;

    // Here, and not beside the checkouts, which are gone when somebody reads what failed.
    private static readonly string Results = Path.Combine("BenchmarkDotNet.Artifacts", "compare");

    private static readonly Argument<string> Before = new("before") { Description = "A commit, tag or branch: what is compared with." };

    private static readonly Argument<string> After = new("after") { Description = "The commit, tag or branch that may have become slower." };

    private static readonly Option<string?> Project = new("--project")
    {
        Description = "The BenchmarkDotNet project, from the root of the repository. The only one that refers to BenchmarkDotNet when left out.",
        HelpName = "path",
    };

    private static readonly Option<string[]> Filters = new("--filter")
    {
        Description = "BenchmarkDotNet's filter of full names.",
        HelpName = "glob",
        DefaultValueFactory = static _ => ["*"],
    };

    private static readonly Option<int?> Rounds = ParsedOptions.Number("--rounds", "How often each of the two runs; 10 when left out. Fewer than six give less than 95 % confidence.", 1, 1000);

    private static readonly Option<string[]> Passed = new("--pass")
    {
        Description = "A further argument for BenchmarkDotNet, as --pass=--job=short.",
        HelpName = "argument",
        DefaultValueFactory = static _ => [],
    };

    public static Command Create()
    {
        var command = new Command("compare", $"Builds two commits in folders of their own, runs both in turn, and ends with 1 when one benchmark's whole interval is above {SlowerAbove} times.")
        {
            Before, After, Project, Filters, Rounds, Passed,
        };
        command.SetAction(RunAsync);
        return command;
    }

    private static async Task<int> RunAsync(ParseResult parsed, CancellationToken cancellationToken)
    {
        var repository = await Worktree.FindRepositoryAsync(Environment.CurrentDirectory, cancellationToken);
        var named = parsed.GetValue(Project) is { } path ? FromRoot(repository, path) : null;
        var scratch = Directory.CreateTempSubdirectory("batchkit-compare-");
        try
        {
            await using var before = await Worktree.AddAsync(repository, parsed.GetValue(Before)!, Path.Combine(scratch.FullName, "before"), cancellationToken);
            await using var after = await Worktree.AddAsync(repository, parsed.GetValue(After)!, Path.Combine(scratch.FullName, "after"), cancellationToken);
            var project = named ?? FindProject(after.Folder);
            var passed = parsed.GetValue(Passed)!;
            var comparison = new Comparison(
                Open(before, project, passed), Open(after, project, passed), Results, parsed.GetValue(Filters)!);
            await comparison.RunAsync(parsed.GetValue(Rounds) ?? DefaultRounds, cancellationToken);
            return Write(comparison.Ratios, $"{after.Commit[..10]} / {before.Commit[..10]}");
        }
        finally
        {
            scratch.Delete(recursive: true);
        }
    }

    // A path that leaves the root would name one project for both commits: it would be compared with itself.
    private static string FromRoot(string repository, string path)
    {
        var project = Path.GetRelativePath(repository, Path.Combine(repository, path));
        return Path.IsPathRooted(project) || project.Split(Path.DirectorySeparatorChar)[0] == ".."
            ? throw new UsageException($"{Project.Name}: {path} is outside of {repository}, the root of the repository.")
            : project;
    }

    private static BenchmarkProject Open(Worktree commit, string project, string[] passed)
    {
        try
        {
            return new BenchmarkProject(Path.Combine(commit.Folder, project), passed);
        }
        catch (UsageException)
        {
            throw new UsageException($"The commit {commit.Commit[..10]} has no project {project}, and no folder of that name with one.");
        }
    }

    private static int Write(IReadOnlyDictionary<string, List<double>> ratios, string title)
    {
        if (ratios.Count == 0)
            throw new UsageException("The two commits have no benchmark in common that matches the filter.");
        var isSlower = false;
        Console.WriteLine($"| {title} | median | interval | confidence | |");
        Console.WriteLine("|---|---:|---:|---:|---|");
        foreach (var (name, values) in ratios)
        {
            var interval = RatioInterval.Of(values);
            var verdict = interval.Low > SlowerAbove ? "slower" : interval.High < 1 / SlowerAbove ? "faster" : "";
            isSlower |= interval.Low > SlowerAbove;
            Console.WriteLine(string.Create(CultureInfo.InvariantCulture, $"| {name} | {interval.Median:0.000} | {interval.Low:0.000} to {interval.High:0.000} | {interval.Confidence * 100:0.0} % | {verdict} |"));
        }

        return isSlower ? ExitCodes.Failed : ExitCodes.Done;
    }

    private static string FindProject(string checkout)
    {
        var projects = Directory.EnumerateFiles(checkout, "*.csproj", SearchOption.AllDirectories)
            .Where(static file => File.ReadAllText(file).Contains("\"BenchmarkDotNet\"", StringComparison.Ordinal))
            .Select(file => Path.GetRelativePath(checkout, file))
            .ToArray();
        return projects switch
        {
            [var only] => only,
            [] => throw new UsageException($"No project of the second commit refers to BenchmarkDotNet: name one with --project."),
            _ => throw new UsageException($"Name one of the projects with --project: {string.Join(", ", projects)}."),
        };
    }
}
