using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;
using Microsoft.CodeAnalysis.Text;

namespace BatchKit.Analyzers.CodeFixes;

internal static class SyntaxContext
{
    /// <summary>The call whose name a rule reported.</summary>
    public static InvocationExpressionSyntax? FindCall(this SyntaxNode root, TextSpan name) => root.FindNode(name).FirstAncestorOrSelf<InvocationExpressionSyntax>();

    /// <summary>The statement that a call is part of; null in a lambda without a block, whose own statement does something else.</summary>
    public static StatementSyntax? Statement(this InvocationExpressionSyntax call) =>
        call.Ancestors().FirstOrDefault(static outer => outer is StatementSyntax or AnonymousFunctionExpressionSyntax) as StatementSyntax;

    /// <summary>What a statement evaluates, or assigns to a discard.</summary>
    public static ExpressionSyntax Value(this ExpressionStatementSyntax statement) => statement.Expression is AssignmentExpressionSyntax discard ? discard.Right : statement.Expression;

    /// <summary>True where <c>await</c> may stand without a change of the method's signature.</summary>
    public static bool MayAwait(this SyntaxNode node)
    {
        if (node.Ancestors().Any(IsUnsafe))
            return false;
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

    private static bool IsUnsafe(SyntaxNode node) => node switch
    {
        UnsafeStatementSyntax => true,
        LocalFunctionStatementSyntax local => local.Modifiers.Any(SyntaxKind.UnsafeKeyword),
        MemberDeclarationSyntax member => member.Modifiers.Any(SyntaxKind.UnsafeKeyword),
        _ => false,
    };
}
