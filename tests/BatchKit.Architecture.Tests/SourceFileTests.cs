using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace BatchKit.Architecture.Tests;

public sealed class SourceFileTests
{
    private const int MaxFileLines = 350;
    private const int MaxMethodLines = 40;
    private const int NearlyFull = 345;
    private const int SmallTypeLines = 40;
    private const int TwinLines = 9;

    private static readonly string[] CodeFolders = ["src", "tests", "benchmarks", "samples", "tools"];
    private static readonly string[] BannedFolders = ["Utils", "Helpers", "Common", "Internal", "Extensions"];
    private static readonly string[] BannedSuffixes = ["Impl", "Default", "Manager", "Base", "Data", "Info", "Helper", "Helpers", "Utils", "Utility"];

    private static readonly IReadOnlyList<SourceFile> Code = Repository.Sources(CodeFolders);

    [Fact]
    public void No_file_is_longer_than_350_lines() =>
        AssertNone(Code.Where(file => file.Lines > MaxFileLines).Select(file => $"{file.Path} has {file.Lines} lines."));

    [Fact]
    public void No_method_is_longer_than_40_lines() =>
        AssertNone(
            from file in Code
            from body in file.Tree.GetRoot().DescendantNodes().OfType<BlockSyntax>()
            where body.Parent is BaseMethodDeclarationSyntax or AccessorDeclarationSyntax or LocalFunctionStatementSyntax
            let lines = BreaksIn(body.SyntaxTree.GetLineSpan(body.Span)) - 1 - LinesOfText(body)
            where lines > MaxMethodLines
            select $"{file.Path}({body.SyntaxTree.GetLineSpan(body.Span).StartLinePosition.Line}): {lines} lines.");

    [Fact]
    public void A_file_is_named_after_one_of_its_types() =>
        AssertNone(
            from file in Code
            where !file.IsProgram
            let names = file.TopLevelTypes.Select(NameOf).ToHashSet(StringComparer.Ordinal)
            where names.Count > 0 && !names.Contains(file.Name.Split('.')[0])
            select $"{file.Path} declares {string.Join(", ", names)}.");

    // A small type that only the large one uses lives with it. A second large one would leave no room to either.
    [Fact]
    public void A_file_that_is_nearly_full_has_one_large_type() =>
        AssertNone(
            from file in Code
            where file.Lines >= NearlyFull
            let large = file.TopLevelTypes.Where(type => BreaksIn(type.SyntaxTree.GetLineSpan(type.Span)) >= SmallTypeLines).Select(NameOf).ToArray()
            where large.Length > 1
            select $"{file.Path} has {file.Lines} lines, and {string.Join(" and ", large)}.");

    // Tests repeat a scene on purpose, each to be read alone.
    [Fact]
    public void No_two_files_of_packages_and_programs_have_nine_equal_lines()
    {
        var twins = from file in Code
                    where !file.Path.StartsWith("tests/", StringComparison.Ordinal)
                    from lines in RunsOf(file)
                    group file.Path by lines into same
                    let files = same.Distinct(StringComparer.Ordinal).ToArray()
                    where files.Length > 1
                    select string.Join(" and ", files);

        AssertNone(twins.Distinct(StringComparer.Ordinal));
    }

    // A template's code has a name of its own, because the project that is made from it may have any.
    [Fact]
    public void A_namespace_is_the_project_and_the_folder() =>
        AssertNone(
            from file in Code
            where file.Project != "BatchKit.Templates"
            from declared in file.Tree.GetRoot().ChildNodes().OfType<BaseNamespaceDeclarationSyntax>()
            let root = NamespaceOf(file.Project)
            let expected = file.Folder.Length == 0 ? root : $"{root}.{file.Folder}"
            where declared.Name.ToString() != expected && !IsRegistration(file, declared.Name.ToString())
            select $"{file.Path} is in {declared.Name}.");

    // The generator writes several classes in an order that differs from one compilation to the next, and the package with it.
    [Fact]
    public void The_log_messages_of_a_package_are_in_one_class() =>
        AssertNone(
            from file in Repository.Sources("src")
            from attribute in file.Tree.GetRoot().DescendantNodes().OfType<AttributeSyntax>()
            where attribute.Name.ToString() == "LoggerMessage"
            group $"{file.Path} {attribute.FirstAncestorOrSelf<ClassDeclarationSyntax>()!.Identifier}" by file.Project into package
            where package.Distinct(StringComparer.Ordinal).Count() > 1
            select $"{package.Key}: {string.Join(", ", package.Distinct(StringComparer.Ordinal))}.");

    [Fact]
    public void No_folder_or_type_has_a_name_that_says_nothing()
    {
        var folders = from file in Code
                      where file.Folder.Split('.').Intersect(BannedFolders, StringComparer.Ordinal).Any()
                      select file.Path;
        var types = from file in Code
                    from type in file.Tree.GetRoot().DescendantNodes().OfType<BaseTypeDeclarationSyntax>()
                    where BannedSuffixes.Any(suffix => type.Identifier.Text.EndsWith(suffix, StringComparison.Ordinal))
                    select $"{file.Path}: {type.Identifier.Text}";

        AssertNone(folders.Concat(types));
    }

    private static void AssertNone(IEnumerable<string> offences)
    {
        var found = offences.Order(StringComparer.Ordinal).ToArray();
        Assert.True(found.Length == 0, string.Join(Environment.NewLine, found));
    }

    private static int BreaksIn(FileLinePositionSpan span) => span.EndLinePosition.Line - span.StartLinePosition.Line;

    // A string over several lines is text to read, not steps to follow.
    private static int LinesOfText(BlockSyntax body) =>
        body.DescendantTokens().Where(token => token.Value is string).Sum(token => BreaksIn(token.SyntaxTree!.GetLineSpan(token.Span)));

    // What says something: without usings, namespaces, comments and lone braces.
    private static IEnumerable<string> RunsOf(SourceFile file)
    {
        string[] lines =
        [
            .. file.Text.Split('\n').Select(line => line.Trim()).Where(line => line.Length > 1 && !line.StartsWith("using ", StringComparison.Ordinal)
                && !line.StartsWith("namespace ", StringComparison.Ordinal) && !line.StartsWith("//", StringComparison.Ordinal)),
        ];
        return Enumerable.Range(0, Math.Max(0, lines.Length - TwinLines + 1)).Select(start => string.Join('\n', lines, start, TwinLines));
    }

    private static string NameOf(MemberDeclarationSyntax member) =>
        member is BaseTypeDeclarationSyntax type ? type.Identifier.Text : ((DelegateDeclarationSyntax)member).Identifier.Text;

    // Its types have the names that they have for users of BatchKit.Broadcast (docs/decisions/0148).
    private static string NamespaceOf(string project) => project == "BatchKit.Sockets" ? "BatchKit.Broadcast" : project;

    // Registration is found where .NET's own is.
    private static bool IsRegistration(SourceFile file, string declared) =>
        declared is "Microsoft.Extensions.DependencyInjection" or "Microsoft.AspNetCore.Builder"
        && (file.Name.EndsWith("BuilderExtensions", StringComparison.Ordinal) || file.Name.EndsWith("ServiceCollectionExtensions", StringComparison.Ordinal));
}
