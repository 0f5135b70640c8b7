using System.Collections.Concurrent;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace BatchKit.Architecture.Tests;

/// <summary>A C# file: its path from the repository's root and its syntax.</summary>
internal sealed record SourceFile(string Path, SyntaxTree Tree)
{
    // Without documentation a cref in a comment is no dependency.
    private static readonly CSharpParseOptions Parsing = new(LanguageVersion.Preview, DocumentationMode.None);

    // Many tests look at all sources, side by side: each file is parsed once for all of them.
    private static readonly ConcurrentDictionary<string, Lazy<SourceFile>> Known = new(StringComparer.Ordinal);

    public string Text { get; } = Tree.ToString();

    public int Lines => Tree.GetText().Lines.Count - (Text.EndsWith('\n') ? 1 : 0);

    public string Name => System.IO.Path.GetFileNameWithoutExtension(Path);

    /// <summary>The folder inside the project, with dots for slashes; empty for the project's own.</summary>
    public string Folder => string.Join('.', Path.Split('/')[2..^1]);

    /// <summary>The project: the second part of the path.</summary>
    public string Project => Path.Split('/')[1];

    /// <summary>True for a file with top-level statements.</summary>
    public bool IsProgram => Tree.GetCompilationUnitRoot().Members.Any(member => member is GlobalStatementSyntax);

    public IReadOnlyList<MemberDeclarationSyntax> TopLevelTypes =>
        [.. Tree.GetCompilationUnitRoot().DescendantNodes(node => node is CompilationUnitSyntax or BaseNamespaceDeclarationSyntax)
            .OfType<MemberDeclarationSyntax>().Where(member => member is BaseTypeDeclarationSyntax or DelegateDeclarationSyntax)];

    public static SourceFile Read(string path) =>
        Known.GetOrAdd(path, static path => new(() => Parse(System.IO.Path.GetRelativePath(Repository.Root, path).Replace('\\', '/'), File.ReadAllText(path)))).Value;

    public static SourceFile Parse(string path, string text) => new(path, CSharpSyntaxTree.ParseText(text, Parsing, path));
}
