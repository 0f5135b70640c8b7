using System.IO.Enumeration;
using System.Text.RegularExpressions;

namespace BatchKit.Architecture.Tests;

public sealed partial class DocumentTests
{
    private const int ExampleLines = 12;
    private const int RecipeLines = 15;
    private const int Decisions = 40;
    private const int DecisionLines = 30;

    // nuget.org refuses a package with more. Directory.Build.props makes the release notes from the newest section of the changelog.
    private const int ReleaseNotesCharacters = 35_000;

    private static readonly string[] Documents = [.. Repository.Files().Where(path => path.EndsWith(".md", StringComparison.Ordinal))];

    [Fact]
    public void The_first_example_of_the_readme_is_the_quick_start_sample()
    {
        var example = CodeBlock.Matches(File.ReadAllText(Repository.In("README.md")))[0].Groups["code"].Value;

        Assert.Equal(File.ReadAllText(Repository.In("samples", "QuickStart", "Program.cs")).Trim(), example.Trim());
        Assert.True(Lines(example).Length <= ExampleLines, $"The example has {Lines(example).Length} lines of code.");
    }

    [Theory]
    [InlineData("TwoNodeChat", 30)]
    [InlineData("Sensors", 25)]
    [InlineData("Tasks", 25)]
    public void A_recipe_is_short_with_its_web_page_too(string recipe, int limit)
    {
        var lines = Repository.Files($"samples/{recipe}").Where(path => Path.GetExtension(path) is ".cs" or ".html").SelectMany(path => Lines(File.ReadAllText(path)));

        Assert.InRange(lines.Count(), 1, limit);
    }

    [Fact]
    public void The_front_page_shows_at_most_fifteen_lines_of_a_recipe()
    {
        var recipes = CodeBlock.Matches(File.ReadAllText(Repository.In("README.md"))).GroupBy(match => match.Groups["source"].Value, match => Lines(match.Groups["code"].Value).Length).ToArray();

        Assert.Equal(5, recipes.Length);
        Assert.All(recipes, recipe => Assert.InRange(recipe.Sum(), 1, RecipeLines));
    }

    [Fact]
    public void Code_that_names_its_source_is_in_it()
    {
        var blocks = from path in Documents
                     from match in CodeBlock.Matches(File.ReadAllText(path))
                     where match.Groups["source"].Success
                     select (Document: path, Source: match.Groups["source"].Value, Code: match.Groups["code"].Value);

        Assert.NotEmpty(blocks);
        Assert.All(blocks, block => Assert.True(
            Contains(Lines(File.ReadAllText(Repository.In(block.Source))), Lines(block.Code)),
            $"{Path.GetRelativePath(Repository.Root, block.Document)} shows code that is not in {block.Source}:\n{block.Code}"));
    }

    [Fact]
    public void Each_example_names_the_source_that_compiles_it()
    {
        var nameless = from path in Documents
                       let page = Path.GetRelativePath(Repository.Root, path).Replace('\\', '/')
                       from match in CodeBlock.Matches(File.ReadAllText(path))
                       where !match.Groups["source"].Success
                       select $"{page}:\n{match.Groups["code"].Value}";

        Assert.Empty(nameless);
    }

    [Fact]
    public void No_example_hides_in_an_indented_block()
    {
        var indented = from path in Documents
                       let page = Path.GetRelativePath(Repository.Root, path).Replace('\\', '/')
                       from match in IndentedCode.Matches(Fence.Replace(File.ReadAllText(path), ""))
                       select $"{page}: {match.Value.Trim()}";

        Assert.Empty(indented);
    }

    [Fact]
    public void Links_to_files_of_the_repository_lead_somewhere()
    {
        var broken = from path in Documents
                     from target in LinksIntoRepository(path)
                     where !File.Exists(target) && !Directory.Exists(target)
                     select $"{Path.GetRelativePath(Repository.Root, path)}: {target}";

        Assert.Empty(broken);
    }

    [Fact]
    public void A_decision_that_is_named_by_its_number_exists()
    {
        var numbers = DecisionFiles().Select(path => Path.GetFileName(path)[..4]).ToHashSet(StringComparer.Ordinal);
        var missing = from path in Repository.Files()
                      where Path.GetExtension(path) is ".md" or ".cs" or ".csproj" or ".props" or ".targets" or ".yml" or ".json" or ""
                      from match in DecisionNumber.Matches(File.ReadAllText(path))
                      where !numbers.Contains(match.Groups["number"].Value)
                      select $"{Path.GetRelativePath(Repository.Root, path)}: {match.Value}";

        Assert.Empty(missing);
    }

    [Fact]
    public void Decisions_are_few_and_short()
    {
        Assert.InRange(DecisionFiles().Count(), 1, Decisions);
        Assert.All(DecisionFiles(), path => Assert.True(File.ReadLines(path).Count() <= DecisionLines, path));
    }

    [Theory]
    [InlineData("README.md", 900)]
    [InlineData("docs/architecture.md", 1500)]
    [InlineData("src/*/README.md", 600)]
    [InlineData("tools/*/README.md", 600)]
    [InlineData("benchmarks/BatchKit.Benchmarks/README.md", 600)]
    [InlineData("docs/sessions.md", 300)]
    public void A_page_that_many_read_is_short(string pages, int words)
    {
        var documents = Documents.Where(path => FileSystemName.MatchesSimpleExpression(pages, Path.GetRelativePath(Repository.Root, path).Replace('\\', '/'))).ToArray();

        Assert.NotEmpty(documents);
        Assert.All(documents, path => Assert.InRange(WordsOf(File.ReadAllText(path)), 1, words));
    }

    [Theory]
    [InlineData("orleans.md")]
    [InlineData("grpc.md")]
    public void The_text_around_the_program_of_another_framework_is_short(string page) => Assert.InRange(WordsOf(Fence.Replace(File.ReadAllText(Repository.In("docs", page)), "")), 1, 200);

    [Fact]
    public void All_documentation_has_at_most_25_000_words() => Assert.InRange(Documents.Where(path => path.StartsWith(Repository.In("docs"), StringComparison.Ordinal)).Sum(path => WordsOf(File.ReadAllText(path))), 1, 25_000);

    [Fact]
    public void Release_notes_fit_into_what_the_package_feed_takes()
    {
        var newest = NewestChanges.Match(File.ReadAllText(Repository.In("CHANGELOG.md"))).Value;

        Assert.InRange(newest.Length, 1, ReleaseNotesCharacters);
    }

    [Fact]
    public void The_readmes_commands_name_projects_that_exist()
    {
        var missing = from path in Documents
                      from match in ProjectArgument.Matches(File.ReadAllText(path))
                      let project = match.Groups["project"].Value
                      where !Directory.Exists(Repository.In(project))
                      select $"{Path.GetRelativePath(Repository.Root, path)}: {project}";

        Assert.Empty(missing);
    }

    [Fact]
    public void Each_log_line_of_the_packages_has_an_id_of_its_own_and_each_warning_is_explained()
    {
        var lines = (from file in Repository.Sources("src")
                     from match in LogLine.Matches(file.Text)
                     select (Id: match.Groups["id"].Value, Level: match.Groups["level"].Value)).ToArray();
        var explained = File.ReadAllText(Repository.In("docs", "trouble.md"));

        Assert.NotEmpty(lines);
        Assert.Equal(lines.Length, lines.DistinctBy(static line => line.Id, StringComparer.Ordinal).Count());
        Assert.All(lines.Where(static line => line.Level is "Warning" or "Error" or "Critical"), line => Assert.Matches($@"(?m)^- (\d+, )?{line.Id}(, \d+)?: ", explained));
    }

    [Fact]
    public void Each_instrument_of_the_packages_is_explained()
    {
        var names = (from file in Repository.Sources("src")
                     from match in InstrumentName.Matches(file.Text)
                     select match.Groups["name"].Value).ToArray();
        var explained = File.ReadAllText(Repository.In("docs", "trouble.md"));

        Assert.NotEmpty(names);
        Assert.All(names, name => Assert.Contains($"`{name}`", explained, StringComparison.Ordinal));
    }

    // A broker or database without a password, on every address of a machine, is everybody's.
    [Fact]
    public void A_container_that_a_page_starts_has_a_version_and_is_reached_from_this_machine_only()
    {
        var lines = from path in Documents
                    from line in File.ReadLines(path)
                    where line.TrimStart().StartsWith("docker run ", StringComparison.Ordinal)
                    select $"{Path.GetRelativePath(Repository.Root, path)}: {line.TrimStart()}";

        var all = lines.ToArray();
        Assert.NotEmpty(all);
        Assert.All(all, static line => Assert.Matches(LocalContainer, line));
    }

    [GeneratedRegex(@": docker run( --(detach|rm)| --publish 127\.0\.0\.1:\d+:\d+| --env \S+)+ [\w./-]+:[\w.-]+( |$)", RegexOptions.ExplicitCapture, 10_000)]
    private static partial Regex LocalContainer { get; }

    [GeneratedRegex(@"(<!-- from (?<source>\S+) -->\s*)?^```csharp\n(?<code>.*?)^```$", RegexOptions.ExplicitCapture | RegexOptions.Multiline | RegexOptions.Singleline, 10_000)]
    private static partial Regex CodeBlock { get; }

    [GeneratedRegex(@"^```.*?^```$", RegexOptions.Multiline | RegexOptions.Singleline, 10_000)]
    private static partial Regex Fence { get; }

    [GeneratedRegex(@"^## \[.*?(?=^## \[|\z)", RegexOptions.Multiline | RegexOptions.Singleline, 10_000)]
    private static partial Regex NewestChanges { get; }

    [GeneratedRegex(@"^    .*[;{]$", RegexOptions.Multiline, 10_000)]
    private static partial Regex IndentedCode { get; }

    [GeneratedRegex(@"\]\((?<target>[^)#\s]+)(#[^)]*)?\)", RegexOptions.ExplicitCapture, 10_000)]
    private static partial Regex Link { get; }

    [GeneratedRegex(@"https://github\.com/batchkit/batchkit/(blob|tree)/main/(?<target>[^)#\s]+)", RegexOptions.ExplicitCapture, 10_000)]
    private static partial Regex RepositoryLink { get; }

    [GeneratedRegex(@"([Dd]ecisions? \[?|decisions/)(?<number>\d{4})", RegexOptions.ExplicitCapture, 10_000)]
    private static partial Regex DecisionNumber { get; }

    [GeneratedRegex(@"--project (?<project>[\w./-]+)", RegexOptions.ExplicitCapture, 10_000)]
    private static partial Regex ProjectArgument { get; }

    [GeneratedRegex(@"\[LoggerMessage\((?<id>\d+), LogLevel\.(?<level>\w+)|LogLevel\.(?<level>\w+), new EventId\((?<id>\d+)", RegexOptions.ExplicitCapture, 10_000)]
    private static partial Regex LogLine { get; }

    [GeneratedRegex("(Count|Gauge|FrameDrops|Create\\w+(<\\w+>)?)\\(\\s*\"(?<name>(batchkit|messaging)\\.[a-z.]+)\"", RegexOptions.ExplicitCapture, 10_000)]
    internal static partial Regex InstrumentName { get; }

    /// <summary>The links of a document that only work beside the other files of the repository.</summary>
    internal static IEnumerable<string> RelativeLinks(string document) =>
        Link.Matches(document).Select(match => match.Groups["target"].Value)
            .Where(target => !target.Contains("://", StringComparison.Ordinal) && !target.StartsWith("mailto:", StringComparison.Ordinal));

    // A package's readme names the repository's files by their full address, because it is shown elsewhere too.
    private static IEnumerable<string> LinksIntoRepository(string path)
    {
        var document = File.ReadAllText(path);
        return RelativeLinks(document).Select(target => Path.Combine(Path.GetDirectoryName(path)!, target))
            .Concat(RepositoryLink.Matches(document).Select(match => Repository.In(match.Groups["target"].Value)));
    }

    private static IEnumerable<string> DecisionFiles() => Repository.Files("docs/decisions").Where(path => char.IsAsciiDigit(Path.GetFileName(path)[0]));

    private static int WordsOf(string text) => text.Split((char[]?)null, StringSplitOptions.RemoveEmptyEntries).Length;

    private static string[] Lines(string text) =>
        [.. text.ReplaceLineEndings("\n").Split('\n').Select(line => line.Trim()).Where(line => line.Length > 0)];

    private static bool Contains(string[] file, string[] code) =>
        Enumerable.Range(0, Math.Max(0, file.Length - code.Length + 1)).Any(start => file.AsSpan(start, code.Length).SequenceEqual(code));
}
