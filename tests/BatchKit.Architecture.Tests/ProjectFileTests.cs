using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace BatchKit.Architecture.Tests;

/// <summary>What the compiler would find wrong with every project, also behind a condition that this build does not meet.</summary>
public sealed class ProjectFileTests
{
    private static readonly IReadOnlyList<ProjectFile> Projects = [.. ProjectFile.All.Where(project => project.IsProject)];

    private static readonly Dictionary<string, SourceFile> Sources =
        Repository.Sources("src", "tests", "benchmarks", "samples", "tools").ToDictionary(source => Repository.In(source.Path), StringComparer.Ordinal);

    [Fact]
    public void Every_file_that_a_project_names_exists() =>
        AssertNone(
            from project in ProjectFile.All
            from path in project.NamedFiles
            where project.Find(path).Count == 0
            select $"{ShortOf(project.Path)} names {path}, which matches no file.");

    [Fact]
    public void Every_namespace_of_ours_that_a_source_uses_is_declared_in_its_project_or_a_referenced_one()
    {
        var declaredBy = Projects.ToDictionary(project => project, project => FindDeclared(project).ToHashSet(StringComparer.Ordinal));

        AssertNone(
            from project in Projects
            let declared = FindReachable(project).Select(reachable => declaredBy[reachable]).ToArray()
            from used in FindUsed(project)
            where IsOurs(used.Name) && !declared.Any(names => names.Contains(used.Name))
            select $"{used.Place} uses {used.Name}, which neither {Path.GetFileName(project.Path)} nor a project that it references declares.");
    }

    [Theory]
    [InlineData("<Compile Include=\"../gone/Moved.cs\" Link=\"Moved.cs\" />", "../gone/Moved.cs")]
    [InlineData("<ProjectReference Include=\"../gone/gone.csproj\" />", "../gone/gone.csproj")]
    [InlineData("<Content Include=\"Gone/**\" />", "Gone/**")]
    [InlineData("<None Update=\"$(Unknown)README.md\" />", "$(Unknown)README.md")]
    public void A_file_that_is_gone_is_found_behind_a_condition_too(string item, string path)
    {
        var project = new ProjectFile(Repository.In("src", "BatchKit", "Made.csproj"), $"<Project><ItemGroup Condition=\"'$(Never)' == 'true'\">{item}</ItemGroup></Project>");

        Assert.Equal([path], project.NamedFiles);
        Assert.Empty(project.Find(path));
    }

    [Fact]
    public void Projects_their_references_and_their_namespaces_are_found()
    {
        var tests = Projects.Single(project => Path.GetFileName(project.Path) == "BatchKit.MQTTnet.Tests.csproj");

        var reachable = FindReachable(tests).Select(project => Path.GetFileNameWithoutExtension(project.Path)).ToArray();

        Assert.Contains("BatchKit.MQTTnet", reachable);
        Assert.Contains("BatchKit", reachable);
        Assert.Contains("BatchKit.MQTTnet", FindReachable(tests).SelectMany(FindDeclared));
        Assert.Contains(FindUsed(tests), used => used.Name == "BatchKit.Transports");
    }

    private static HashSet<ProjectFile> FindReachable(ProjectFile project)
    {
        var byPath = Projects.ToDictionary(other => other.Path, StringComparer.Ordinal);
        var reachable = new HashSet<ProjectFile> { project };
        var open = new Queue<ProjectFile>(reachable);
        while (open.TryDequeue(out var next))
        {
            foreach (var reference in next.References.Where(byPath.ContainsKey).Select(path => byPath[path]).Where(reachable.Add))
                open.Enqueue(reference);
        }

        return reachable;
    }

    private static IEnumerable<SourceFile> SourcesOf(ProjectFile project) =>
        Sources.Where(pair => project.CompilesFolder && pair.Key.StartsWith(project.Folder + Path.DirectorySeparatorChar, StringComparison.Ordinal)).Select(pair => pair.Value)
            .Concat(project.LinkedSources.Where(Sources.ContainsKey).Select(path => Sources[path]));

    // Namespaces, and types, which an alias or a static using names.
    private static IEnumerable<string> FindDeclared(ProjectFile project) =>
        from source in SourcesOf(project)
        from declared in source.Tree.GetRoot().DescendantNodes().OfType<BaseNamespaceDeclarationSyntax>()
        let space = declared.Name.ToString()
        from name in source.TopLevelTypes.OfType<BaseTypeDeclarationSyntax>().Select(type => $"{space}.{type.Identifier.Text}").Prepend(space)
        select name;

    private static IEnumerable<(string Place, string Name)> FindUsed(ProjectFile project)
    {
        var inSources = from source in SourcesOf(project)
                        from directive in source.Tree.GetRoot().DescendantNodes().OfType<UsingDirectiveSyntax>()
                        where directive.NamespaceOrType is NameSyntax
                        select (source.Path, directive.NamespaceOrType.ToString());
        return inSources.Concat(project.Usings.Select(name => (ShortOf(project.Path), name)));
    }

    private static bool IsOurs(string name) => name == "BatchKit" || name.StartsWith("BatchKit.", StringComparison.Ordinal);

    private static string ShortOf(string path) => Path.GetRelativePath(Repository.Root, path).Replace('\\', '/');

    private static void AssertNone(IEnumerable<string> offences)
    {
        var found = offences.Order(StringComparer.Ordinal).ToArray();
        Assert.True(found.Length == 0, string.Join(Environment.NewLine, found));
    }
}
