using System;
using System.Collections.Generic;
using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace BatchKit.Analyzers;

/// <summary>Finds whether code runs inside a scope, as far as its own type shows it.</summary>
internal static class ScopeCoverage
{
    // A scope of the whole member, or one that it was handed. Where it is open does not matter: whoever opens one has thought of it.
    private static readonly string[] Scopes = ["BeginBufferingScope", "BufferingScope", "BeginWriting", "MessageWriter"];

    /// <summary>True when the member around the code has a scope, or is private and only members with a scope call it.</summary>
    public static bool IsInScope(this IOperation operation) => operation.IsInMemberThatNames(Scopes);

    /// <summary>True when the member around the code is called so, or is private and only called by it.</summary>
    public static bool IsInMember(this IOperation operation, string name) => operation.IsInMemberThatNames([name]);

    private static bool IsInMemberThatNames(this IOperation operation, string[] names) => MemberAround(operation.Syntax) is { } member && Names(member, names, []);

    // A member that was seen before adds nothing: two members may call each other.
    private static bool Names(SyntaxNode member, string[] names, HashSet<SyntaxNode> seen) =>
        !seen.Add(member) || member.DescendantTokens().Any(token => token.IsKind(SyntaxKind.IdentifierToken) && names.Contains(token.ValueText, StringComparer.Ordinal)) || IsOnlyCalledBySuch(member, names, seen);

    private static bool IsOnlyCalledBySuch(SyntaxNode member, string[] names, HashSet<SyntaxNode> seen)
    {
        if (member is not MethodDeclarationSyntax { Parent: TypeDeclarationSyntax type } method || !IsPrivate(method) || type.Modifiers.Any(SyntaxKind.PartialKeyword))
            return false;
        var callers = type.DescendantNodes().OfType<SimpleNameSyntax>().Where(name => name.Identifier.ValueText == method.Identifier.ValueText).Select(MemberAround).ToArray();
        return callers.Any(caller => caller != method) && callers.All(caller => caller is not null && Names(caller, names, seen));
    }

    private static bool IsPrivate(MethodDeclarationSyntax method) =>
        method is { ExplicitInterfaceSpecifier: null, Parent: not InterfaceDeclarationSyntax }
        && !method.Modifiers.Any(static modifier => modifier.Kind() is SyntaxKind.PublicKeyword or SyntaxKind.InternalKeyword or SyntaxKind.ProtectedKeyword);

    private static SyntaxNode? MemberAround(SyntaxNode code) => code.Ancestors().FirstOrDefault(static node =>
        node is BaseMethodDeclarationSyntax or BasePropertyDeclarationSyntax or BaseFieldDeclarationSyntax or CompilationUnitSyntax);
}
