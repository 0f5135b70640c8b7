using System.Text.RegularExpressions;

namespace BatchKit.Architecture.Tests;

public sealed partial class RepositoryTests
{
    // Put together here, so that this file does not hold what it forbids.
    private static readonly string[] Silencers = ["#" + "pragma", "#" + "if", "#" + "region", "No" + "Warn", "Suppress" + "Message", "WarningsNot" + "AsErrors"];

    private static readonly string[] TextEndings =
        [".cs", ".csproj", ".props", ".targets", ".sln", ".json", ".md", ".yml", ".yaml", ".txt", ".sh", ".html", ".js", ".css", ".editorconfig", "run"];

    [Fact]
    public void Nothing_silences_a_warning()
    {
        var offences = from path in Repository.Files()
                       where Path.GetExtension(path) is ".cs" or ".csproj" or ".props" or ".targets"
                       let text = File.ReadAllText(path)
                       from silencer in Silencers
                       where text.Contains(silencer, StringComparison.Ordinal)
                       select $"{Path.GetRelativePath(Repository.Root, path)}: {silencer}";

        AssertNone(offences);
    }

    [Fact]
    public void No_file_names_a_path_of_somebodys_machine()
    {
        var offences = from path in Repository.Files()
                       where TextEndings.Any(ending => path.EndsWith(ending, StringComparison.Ordinal))
                       from match in MachinePath.Matches(File.ReadAllText(path))
                       select $"{Path.GetRelativePath(Repository.Root, path)}: {match.Value}";

        AssertNone(offences);
    }

    [Fact]
    public void No_work_is_left_to_a_comment()
    {
        var offences = from file in Repository.Sources("src", "tests", "benchmarks", "samples", "tools")
                       from trivia in file.Tree.GetRoot().DescendantTrivia()
                       where WorkLeft.IsMatch(trivia.ToString())
                       select $"{file.Path}: {trivia}";

        AssertNone(offences);
    }

    [Fact]
    public void No_regular_expression_of_a_package_fails_because_the_machine_stood_still() =>
        AssertNone(Repository.Sources("src").Where(file => file.Text.Contains("[GeneratedRegex", StringComparison.Ordinal) && TimeLimit.IsMatch(file.Text)).Select(file => file.Path));

    [Fact]
    public void Every_project_is_in_the_solution()
    {
        var solution = File.ReadAllText(Repository.In("BatchKit.sln")).Replace('\\', '/');

        AssertNone(Repository.Files().Where(path => path.EndsWith(".csproj", StringComparison.Ordinal))
            .Select(path => Path.GetRelativePath(Repository.Root, path).Replace('\\', '/'))
            .Where(path => !solution.Contains($"\"{path}\"", StringComparison.Ordinal)));
    }

    [Fact]
    public void Each_figure_that_tests_read_from_the_environment_is_set_each_night()
    {
        var (night, page) = (File.ReadAllText(Repository.In(".ci", "nightly")), File.ReadAllText(Repository.In("tests", "README.md")));
        var figures = Repository.Sources("tests").SelectMany(file => Figure.Matches(file.Tree.ToString()).Select(match => match.Groups["name"].Value)).Distinct(StringComparer.Ordinal);

        AssertNone(figures.Where(name => !night.Contains($" {name}=", StringComparison.Ordinal) || !page.Contains($"`{name}", StringComparison.Ordinal))
            .Select(name => $"{name} is not set in .ci/nightly, or not in the tables of tests/README.md."));
    }

    [Fact]
    public void Each_action_of_a_workflow_is_pinned_to_a_commit_and_names_its_version()
    {
        var uses = from path in Repository.Files(".github")
                   where path.EndsWith(".yml", StringComparison.Ordinal)
                   from line in File.ReadLines(path)
                   where line.Contains(" uses: ", StringComparison.Ordinal)
                   select $"{Path.GetFileName(path)}:{line}";

        var all = uses.ToArray();
        Assert.NotEmpty(all);
        AssertNone(all.Where(line => !PinnedAction.IsMatch(line)));
    }

    // The bars are measured each night: a shared machine would hold up a release, and the first pull request of somebody else.
    [Fact]
    public void A_release_waits_for_the_other_jobs_of_a_change_and_none_of_them_measures()
    {
        var workflow = File.ReadAllText(Repository.In(".github", "workflows", "ci.yml"));
        var jobs = Job.Matches(workflow[workflow.IndexOf("\njobs:", StringComparison.Ordinal)..]).Select(match => match.Groups["name"].Value);

        Assert.Contains($"needs: [{string.Join(", ", jobs.Where(name => name != "publish"))}]", workflow, StringComparison.Ordinal);
        Assert.DoesNotContain("gate", workflow, StringComparison.Ordinal);
    }

    [GeneratedRegex(@"^  (?<name>[\w-]+):$", RegexOptions.ExplicitCapture | RegexOptions.Multiline, matchTimeoutMilliseconds: 10_000)]
    private static partial Regex Job { get; }

    // A tag can be moved to other code, a commit can't.
    [GeneratedRegex(@"uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", RegexOptions.ExplicitCapture, matchTimeoutMilliseconds: 10_000)]
    private static partial Regex PinnedAction { get; }

    // A broker's address, a seed and what is skipped are no figures.
    [GeneratedRegex("\"(?<name>BATCHKIT_(HOSTILE_FULL|TEST_(?!RABBITMQ|MQTT\"|NATS|POSTGRES|REDIS|REQUIRE_BROKERS|SEED\")[A-Z_]+))\"", RegexOptions.ExplicitCapture, matchTimeoutMilliseconds: 10_000)]
    private static partial Regex Figure { get; }

    [GeneratedRegex(@"(?<![\w.$}/\-])(/home/|/Users/|/root/|/tmp/|/mnt/|[A-Z]:\\)\w+", RegexOptions.ExplicitCapture, matchTimeoutMilliseconds: 10_000)]
    private static partial Regex MachinePath { get; }

    [GeneratedRegex(@"\b(TO" + "DO|FIX" + @"ME|HA" + @"CK|XX" + @"X)\b", RegexOptions.ExplicitCapture, matchTimeoutMilliseconds: 10_000)]
    private static partial Regex WorkLeft { get; }

    [GeneratedRegex(@"matchTimeoutMilliseconds: \d", RegexOptions.ExplicitCapture, matchTimeoutMilliseconds: 10_000)]
    private static partial Regex TimeLimit { get; }

    private static void AssertNone(IEnumerable<string> offences)
    {
        var found = offences.Order(StringComparer.Ordinal).ToArray();
        Assert.True(found.Length == 0, string.Join(Environment.NewLine, found));
    }
}
