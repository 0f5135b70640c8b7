using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace BatchKit.Architecture.Tests;

/// <summary>
/// Finds uses against the core's direction: root and Sessions -> Buffering -> Dispatch -> Batches -> Transports, and Diagnostics called by all. A folder may also use
/// what lies in the root, as far as that leads, through whatever it uses itself, to no folder that it may not use.
/// </summary>
internal sealed class FolderDirection
{
    private const string Root = "";

    private static readonly Dictionary<string, string[]> Allowed = new(StringComparer.Ordinal)
    {
        ["Sessions"] = ["Sessions", "Buffering", "Dispatch", "Batches", "Transports", "Diagnostics"],
        ["Buffering"] = ["Buffering", "Dispatch", "Batches", "Transports", "Diagnostics"],
        ["Dispatch"] = ["Dispatch", "Batches", "Transports", "Diagnostics"],
        ["Batches"] = ["Batches", "Transports", "Diagnostics"],
        ["Transports"] = ["Transports", "Diagnostics"],
        ["Diagnostics"] = ["Diagnostics"],
    };

    private readonly Dictionary<SourceFile, HashSet<SourceFile>> _uses;
    private readonly Dictionary<SourceFile, HashSet<string>> _reach = [];

    public FolderDirection(IReadOnlyList<SourceFile> files) => _uses = FindUses(files);

    public int UseCount => _uses.Values.Sum(uses => uses.Count);

    public IReadOnlyList<string> FindViolations()
    {
        var violations = new List<string>();
        foreach (var (file, uses) in _uses.Where(pair => pair.Key.Folder != Root))
        {
            if (!Allowed.TryGetValue(file.Folder, out var allowed))
            {
                violations.Add($"{file.Path} is in a folder that has no place in the direction.");
                continue;
            }

            violations.AddRange(
                from used in uses
                from folder in Reach(used).Except(allowed, StringComparer.Ordinal)
                select used.Folder == Root
                    ? $"{file.Path} uses {used.Path}, which leads to {folder}."
                    : $"{file.Path} uses {used.Path}.");
        }

        return [.. violations.Order(StringComparer.Ordinal)];
    }

    private HashSet<string> Reach(SourceFile file)
    {
        if (file.Folder != Root)
            return [file.Folder];
        if (_reach.TryGetValue(file, out var known))
            return known;

        var folders = new HashSet<string>(StringComparer.Ordinal);
        var seen = new HashSet<SourceFile> { file };
        var open = new Queue<SourceFile>(seen);
        while (open.TryDequeue(out var next))
        {
            if (next.Folder != Root)
                folders.Add(next.Folder);
            else
                foreach (var used in _uses[next].Where(seen.Add))
                    open.Enqueue(used);
        }

        return _reach[file] = folders;
    }

    private static Dictionary<SourceFile, HashSet<SourceFile>> FindUses(IReadOnlyList<SourceFile> files)
    {
        var implicitUsings = SourceFile.Parse("usings.cs", "global using System; global using System.Collections.Generic; global using System.IO; "
            + "global using System.Linq; global using System.Threading; global using System.Threading.Tasks;");
        var trusted = (string)AppContext.GetData("TRUSTED_PLATFORM_ASSEMBLIES")!;
        var references = trusted.Split(Path.PathSeparator).Where(path => !Path.GetFileName(path).StartsWith("BatchKit", StringComparison.Ordinal))
            .Select(path => MetadataReference.CreateFromFile(path));
        var compilation = CSharpCompilation.Create("Core", [implicitUsings.Tree, .. files.Select(file => file.Tree)], references,
            new CSharpCompilationOptions(OutputKind.DynamicallyLinkedLibrary, allowUnsafe: true));
        var byTree = files.ToDictionary(file => file.Tree);
        return files.ToDictionary(file => file, file => FindUses(file, compilation, byTree));
    }

    private static HashSet<SourceFile> FindUses(SourceFile file, CSharpCompilation compilation, Dictionary<SyntaxTree, SourceFile> byTree)
    {
        var model = compilation.GetSemanticModel(file.Tree);
        var uses = new HashSet<SourceFile>();
        foreach (var name in file.Tree.GetRoot().DescendantNodes().OfType<SimpleNameSyntax>())
        {
            var found = model.GetSymbolInfo(name);
            var symbol = found.Symbol ?? found.CandidateSymbols.FirstOrDefault();
            var type = symbol as INamedTypeSymbol ?? symbol?.ContainingType;
            foreach (var declaration in type?.OriginalDefinition.DeclaringSyntaxReferences ?? [])
            {
                if (byTree.TryGetValue(declaration.SyntaxTree, out var used) && used != file)
                    uses.Add(used);
            }
        }

        return uses;
    }
}
