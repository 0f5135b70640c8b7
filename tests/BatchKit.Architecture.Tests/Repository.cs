namespace BatchKit.Architecture.Tests;

/// <summary>The repository that these tests were built from.</summary>
internal static class Repository
{
    /// <summary>The package of templates for dotnet new, which has no code.</summary>
    public const string Templates = "BatchKit.Templates";

    private static readonly string[] MadeFolders = [".git", ".vs", ".idea", "bin", "obj", "artifacts", "TestResults", "BenchmarkDotNet.Artifacts"];

    public static string Root { get; } = FindRoot();

    /// <summary>The names of the packages with code, which are those of the folders in src but for the templates, and the analyzers, which are inside the core's package.</summary>
    public static IReadOnlyList<string> Packages { get; } =
        [.. Files("src").Where(path => path.EndsWith(".csproj", StringComparison.Ordinal) && !File.ReadAllText(path).Contains("<IsPackable>false", StringComparison.Ordinal))
            .Select(path => Path.GetFileNameWithoutExtension(path)).Where(name => name != Templates).Order(StringComparer.Ordinal)];

    public static string In(params ReadOnlySpan<string> parts) => Path.Combine([Root, .. parts]);

    /// <summary>All files that a person wrote, below a folder of the repository.</summary>
    public static IEnumerable<string> Files(string folder = "") => Walk(new DirectoryInfo(In(folder)));

    public static IReadOnlyList<SourceFile> Sources(params ReadOnlySpan<string> folders)
    {
        var sources = new List<SourceFile>();
        foreach (var folder in folders)
        {
            if (Directory.Exists(In(folder)))
                sources.AddRange(Files(folder).Where(path => path.EndsWith(".cs", StringComparison.Ordinal)).Select(SourceFile.Read));
        }

        return sources;
    }

    private static IEnumerable<string> Walk(DirectoryInfo folder)
    {
        foreach (var file in folder.GetFiles())
            yield return file.FullName;
        foreach (var inner in folder.GetDirectories().Where(inner => !MadeFolders.Contains(inner.Name, StringComparer.Ordinal)))
        {
            foreach (var file in Walk(inner))
                yield return file;
        }
    }

    private static string FindRoot()
    {
        var folder = new DirectoryInfo(AppContext.BaseDirectory);
        while (folder is not null && !File.Exists(Path.Combine(folder.FullName, "BatchKit.sln")))
            folder = folder.Parent;
        return folder?.FullName ?? throw new InvalidOperationException("These tests run from inside the repository, below BatchKit.sln.");
    }
}
