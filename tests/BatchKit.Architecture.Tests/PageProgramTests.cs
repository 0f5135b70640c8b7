using System.Text.RegularExpressions;

namespace BatchKit.Architecture.Tests;

/// <summary>What <c>.ci/pages</c> needs to run each page as it is pasted (docs/decisions/0150).</summary>
public sealed partial class PageProgramTests
{
    private static readonly string[] PackagesOfBrokers = ["BatchKit.MQTTnet", "BatchKit.Mqtt", "BatchKit.Nats", "BatchKit.Postgres", "BatchKit.RabbitMQ", "BatchKit.Redis"];

    private static readonly Page[] Pages =
        [.. Repository.Files().Where(path => path.EndsWith(".md", StringComparison.Ordinal)).Select(path => new Page(Path.GetRelativePath(Repository.Root, path).Replace('\\', '/'), File.ReadAllText(path)))];

    [Fact]
    public void Code_belongs_to_a_program_of_its_page_or_to_one_that_is_named_before_it()
    {
        var programs = Pages.Where(page => NewProgram.IsMatch(page.Text)).Select(page => page.Path).ToHashSet(StringComparer.Ordinal);

        AssertNone(
            from page in Pages
            from Match code in CodeStart.Matches(page.Text)
            let before = page.Text[..code.Index]
            where !NewProgram.IsMatch(before) && !LinksOf(page.Path, before).Any(link => programs.Contains(link.Target))
            select $"{page.Path}, line {LineOf(page.Text, code.Index)}: neither commands with \"dotnet new\" nor a link to a page with a program stand before this code.");
    }

    [Fact]
    public void Commands_that_make_a_project_are_followed_by_its_program_and_by_what_it_prints() =>
        AssertNone(
            from page in Pages
            from Match made in NewProgram.Matches(page.Text)
            where !WholeProgram.IsMatch(UntilTheNext(page.Text, made))
            select $"{page.Path}, line {LineOf(page.Text, made.Index)}: {made.Value.Trim()}");

    [Fact]
    public void Commands_that_add_the_package_of_a_broker_to_a_new_project_start_the_broker() =>
        AssertNone(
            from page in Pages
            from Match commands in Commands.Matches(page.Text)
            where NewProgram.IsMatch(commands.Value) && AddedPackage.Matches(commands.Value).Any(package => PackagesOfBrokers.Contains(package.Groups["name"].Value, StringComparer.Ordinal))
            where !commands.Value.Contains("    docker run --detach ", StringComparison.Ordinal)
            select $"{page.Path}, line {LineOf(page.Text, commands.Index)}");

    [Fact]
    public void Packages_that_pages_add_are_ours_or_those_that_our_projects_use()
    {
        var known = File.ReadAllText(Repository.In("Directory.Packages.props"));

        AssertNone(
            from page in Pages
            from Match package in AddedPackage.Matches(page.Text)
            let name = package.Groups["name"].Value
            where !Repository.Packages.Contains(name, StringComparer.Ordinal) && !known.Contains($"Include=\"{name}\"", StringComparison.Ordinal)
            select $"{page.Path}: {name}");
    }

    [Fact]
    public void Links_to_a_part_of_a_page_name_one_of_its_headings()
    {
        var anchors = Pages.ToDictionary(page => page.Path, page => Heading.Matches(page.Text).Select(heading => AnchorOf(heading.Groups["text"].Value)).ToHashSet(StringComparer.Ordinal), StringComparer.Ordinal);

        AssertNone(
            from page in Pages
            from link in LinksOf(page.Path, page.Text)
            where link.Anchor.Length > 0 && anchors.TryGetValue(link.Target, out var headings) && !headings.Contains(link.Anchor)
            select $"{page.Path}: {link.Target}#{link.Anchor}");
    }

    private static string UntilTheNext(string text, Match made)
    {
        var next = made.NextMatch();
        return next.Success ? text[made.Index..next.Index] : text[made.Index..];
    }

    // The pages that a text links to, from the repository's root, and the parts of them.
    private static IEnumerable<(string Target, string Anchor)> LinksOf(string page, string text) =>
        from Match link in Link.Matches(text)
        let target = link.Groups["target"].Value
        let path = link.Groups["root"].Success ? target : target.Length == 0 ? page : Path.Combine(Path.GetDirectoryName(page)!, target)
        select (Path.GetRelativePath(Repository.Root, Repository.In(path)).Replace('\\', '/'), link.Groups["anchor"].Value);

    private static string AnchorOf(string heading) => string.Concat(heading.ToLowerInvariant().Where(letter => char.IsLetterOrDigit(letter) || letter is ' ' or '-' or '_')).Replace(' ', '-');

    private static int LineOf(string text, int index) => text.AsSpan(0, index).Count('\n') + 1;

    private static void AssertNone(IEnumerable<string> offences) => Assert.True(!offences.Any(), string.Join(Environment.NewLine, offences));

    [GeneratedRegex("^```csharp$", RegexOptions.Multiline, 10_000)]
    private static partial Regex CodeStart { get; }

    // As .ci/pages finds it.
    [GeneratedRegex("^    dotnet new (console|web|worker) .*$", RegexOptions.Multiline | RegexOptions.ExplicitCapture, 10_000)]
    private static partial Regex NewProgram { get; }

    [GeneratedRegex("^```csharp$.*^```$.*^```text$", RegexOptions.Multiline | RegexOptions.Singleline, 10_000)]
    private static partial Regex WholeProgram { get; }

    [GeneratedRegex("^(    .*\n)+", RegexOptions.Multiline | RegexOptions.ExplicitCapture, 10_000)]
    private static partial Regex Commands { get; }

    [GeneratedRegex(@"^    dotnet add package (?<name>\S+)$", RegexOptions.Multiline | RegexOptions.ExplicitCapture, 10_000)]
    private static partial Regex AddedPackage { get; }

    [GeneratedRegex("^#+ (?<text>.*)$", RegexOptions.Multiline | RegexOptions.ExplicitCapture, 10_000)]
    private static partial Regex Heading { get; }

    [GeneratedRegex(@"\]\((?<root>https://github\.com/batchkit/batchkit/blob/main/)?(?![a-z]+:)(?<target>[^)#\s]*)(#(?<anchor>[^)\s]*))?\)", RegexOptions.ExplicitCapture, 10_000)]
    private static partial Regex Link { get; }

    private sealed record Page(string Path, string Text);
}
