using System.Text.RegularExpressions;
using System.Xml.Linq;

namespace BatchKit.Architecture.Tests;

/// <summary>A project, or a file of properties or targets that projects share, read as XML: what a condition leaves out of this build is there too.</summary>
/// <param name="Path">The full path.</param>
/// <param name="Text">What it holds.</param>
internal sealed partial record ProjectFile(string Path, string Text)
{
    private static readonly string[] FileItems = ["Compile", "None", "Content", "AdditionalFiles", "EmbeddedResource", "ProjectReference"];
    private static readonly string[] FileAttributes = ["Include", "Update", "Remove"];

    private readonly XElement _root = XElement.Parse(Text);

    public static IReadOnlyList<ProjectFile> All { get; } =
        [.. Repository.Files().Where(path => System.IO.Path.GetExtension(path) is ".csproj" or ".props" or ".targets").Select(path => new ProjectFile(path, File.ReadAllText(path)))];

    public bool IsProject => Path.EndsWith(".csproj", StringComparison.Ordinal);

    /// <summary>Where the project's own sources lie.</summary>
    public string Folder => System.IO.Path.GetDirectoryName(Path)!;

    /// <summary>False for a project that compiles nothing of its folder, such as that of the templates.</summary>
    public bool CompilesFolder => !_root.Descendants("EnableDefaultItems").Any(element => element.Value == "false");

    /// <summary>The paths and globs that must match a file, as they are written. An item on the condition that its file exists needs none.</summary>
    public IEnumerable<string> NamedFiles =>
        from element in _root.Descendants()
        where !HasExistsCondition(element)
        from attribute in element.Name.LocalName == "Import" ? ["Project"] : FileItems.Contains(element.Name.LocalName, StringComparer.Ordinal) ? FileAttributes : []
        from path in ((string?)element.Attribute(attribute) ?? "").Split(';', StringSplitOptions.RemoveEmptyEntries | StringSplitOptions.TrimEntries)
        select path;

    /// <summary>The projects that it references.</summary>
    public IEnumerable<string> References =>
        from reference in _root.Descendants("ProjectReference")
        where reference.Attribute("Include") is not null
        from path in Find((string)reference.Attribute("Include")!)
        select path;

    /// <summary>Files of other folders that it compiles.</summary>
    public IEnumerable<string> LinkedSources =>
        from item in _root.Descendants("Compile")
        where item.Attribute("Include") is not null
        from path in Find((string)item.Attribute("Include")!)
        select path;

    /// <summary>The namespaces and types that it imports for all of its sources.</summary>
    public IEnumerable<string> Usings => _root.Descendants("Using").Select(item => (string?)item.Attribute("Include") ?? "");

    /// <summary>The files that a path or glob of this project matches.</summary>
    public IReadOnlyList<string> Find(string path)
    {
        var resolved = Resolve(path.Replace('\\', '/'));
        if (resolved is null)
            return [];
        var full = System.IO.Path.GetFullPath(resolved, Folder);
        if (!full.Contains('*', StringComparison.Ordinal))
            return File.Exists(full) ? [full] : [];

        var glob = new Regex($"^{Regex.Escape(full).Replace(@"\*\*/", "(.*/)?").Replace(@"\*\*", ".*").Replace(@"\*", "[^/]*")}$", RegexOptions.None, TimeSpan.FromSeconds(10));
        return [.. Repository.Files().Where(file => glob.IsMatch(file.Replace('\\', '/')))];
    }

    private static bool HasExistsCondition(XElement element) => ((string?)element.Attribute("Condition") ?? "").StartsWith("Exists(", StringComparison.Ordinal);

    // Null for an expression that is not understood: then no file matches, and the test names the path.
    private string? Resolve(string path)
    {
        if (FileAbove.Match(path) is { Success: true } above)
            return FindAbove(above.Groups["name"].Value);
        var resolved = path.Replace("$(MSBuildThisFileDirectory)", $"{Folder}/", StringComparison.Ordinal).Replace("$(MSBuildProjectDirectory)", Folder, StringComparison.Ordinal);
        return resolved.Contains("$(", StringComparison.Ordinal) ? null : resolved;
    }

    private string? FindAbove(string name)
    {
        for (var folder = Directory.GetParent(Folder); folder is not null; folder = folder.Parent)
        {
            if (File.Exists(System.IO.Path.Combine(folder.FullName, name)))
                return System.IO.Path.Combine(folder.FullName, name);
        }

        return null;
    }

    [GeneratedRegex(@"^\$\(\[MSBuild\]::GetPathOfFileAbove\('(?<name>[^']+)', '\$\(MSBuildThisFileDirectory\)\.\./'\)\)$", RegexOptions.ExplicitCapture, matchTimeoutMilliseconds: 10_000)]
    private static partial Regex FileAbove { get; }
}
