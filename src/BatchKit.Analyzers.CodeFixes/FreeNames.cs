using System;
using System.Collections.Generic;
using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace BatchKit.Analyzers.CodeFixes;

/// <summary>Names for the variables that the fixes of one file declare.</summary>
internal sealed class FreeNames(SemanticModel model)
{
    private readonly Dictionary<SyntaxNode, HashSet<string>> _taken = [];

    /// <summary>Takes a name that means nothing yet where the statement is, and that nothing else in its method has.</summary>
    public string Take(StatementSyntax statement, string wanted)
    {
        var member = statement.FirstAncestorOrSelf<MemberDeclarationSyntax>() switch
        {
            GlobalStatementSyntax { Parent: { } program } => program,
            { } declared => declared,
            null => statement.SyntaxTree.GetRoot(),
        };
        if (!_taken.TryGetValue(member, out var taken))
            _taken[member] = taken = NamesIn(member);
        var name = wanted;
        for (var number = 2; taken.Contains(name) || !model.LookupSymbols(statement.SpanStart, name: name).IsEmpty; number++)
            name = $"{wanted}{number}";
        taken.Add(name);
        return name;
    }

    // Also names that are declared below, or in a block inside: C# allows no other variable of that name around them.
    private static HashSet<string> NamesIn(SyntaxNode member)
    {
        IEnumerable<SyntaxNode> parts = member is CompilationUnitSyntax program ? program.Members.OfType<GlobalStatementSyntax>() : [member];
        return new(parts.SelectMany(static part => part.DescendantTokens()).Where(static token => token.IsKind(SyntaxKind.IdentifierToken)).Select(static token => token.ValueText), StringComparer.Ordinal);
    }
}
