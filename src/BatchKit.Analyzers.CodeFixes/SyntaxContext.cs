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
    public static bool MayAwait(this SyntaxNode node, SemanticModel model)
    {
        if (node.Ancestors().Any(IsUnsafe) || HasReferences(node, model))
            return false;
        foreach (var outer in node.Ancestors())
        {
            switch (outer)
            {
                case LockStatementSyntax:
                case UsingStatementSyntax { Expression: { } resource } when model.GetTypeInfo(resource).Type is { IsRefLikeType: true }:
                case ForEachStatementSyntax each when model.GetForEachStatementInfo(each).GetEnumeratorMethod is { ReturnType.IsRefLikeType: true }:
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

    // No await may stand between two uses of a span or of a 'ref' variable. Whether another use follows is not looked at.
    private static bool HasReferences(SyntaxNode node, SemanticModel model)
    {
        var function = model.GetEnclosingSymbol(node.SpanStart);
        return model.LookupSymbols(node.SpanStart).OfType<ILocalSymbol>().Any(local =>
            (local.RefKind != RefKind.None || local.Type.IsRefLikeType)
            && SymbolEqualityComparer.Default.Equals(local.ContainingSymbol, function)
            && local.DeclaringSyntaxReferences.Any(declared => declared.Span.End <= node.SpanStart));
    }

    private static bool IsUnsafe(SyntaxNode node) => node switch
    {
        UnsafeStatementSyntax => true,
        LocalFunctionStatementSyntax local => local.Modifiers.Any(SyntaxKind.UnsafeKeyword),
        MemberDeclarationSyntax member => member.Modifiers.Any(SyntaxKind.UnsafeKeyword),
        _ => false,
    };
}
