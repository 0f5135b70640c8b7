using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace BatchKit.Analyzers.CodeFixes;

internal static class SyntaxContext
{
    /// <summary>True where <c>await</c> may stand without a change of the method's signature.</summary>
    public static bool MayAwait(this SyntaxNode node)
    {
        foreach (var outer in node.Ancestors())
        {
            switch (outer)
            {
                case LockStatementSyntax:
                    return false;
                case AnonymousFunctionExpressionSyntax lambda:
                    return lambda.AsyncKeyword.IsKind(SyntaxKind.AsyncKeyword);
                case LocalFunctionStatementSyntax local:
                    return local.Modifiers.Any(SyntaxKind.AsyncKeyword);
                case MethodDeclarationSyntax method:
                    return method.Modifiers.Any(SyntaxKind.AsyncKeyword);
                case GlobalStatementSyntax:
                    return true;
            }
        }

        return false;
    }
}
