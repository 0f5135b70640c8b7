using System.Collections.Immutable;
using System.Composition;
using System.Threading.Tasks;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CodeActions;
using Microsoft.CodeAnalysis.CodeFixes;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace BatchKit.Analyzers.CodeFixes;

/// <summary>BK0006: awaits a write or a flush, where the method is async already.</summary>
[ExportCodeFixProvider(LanguageNames.CSharp)]
[Shared]
internal sealed class AwaitedCall : CodeFixProvider
{
    private const string Title = "Await the call";

    public override ImmutableArray<string> FixableDiagnosticIds { get; } = [Rules.NotAwaited.Id];

    public override FixAllProvider GetFixAllProvider() => WellKnownFixAllProviders.BatchFixer;

    public override async Task RegisterCodeFixesAsync(CodeFixContext context)
    {
        var root = await context.Document.GetSyntaxRootAsync(context.CancellationToken).ConfigureAwait(false);
        var call = root?.FindCall(context.Span);
        if (root is null || call?.Statement() is not ExpressionStatementSyntax statement || !statement.MayAwait())
            return;

        // A choice of two calls, or a call behind '?.', can't be awaited as it is.
        var value = statement.Value();
        if (WithoutParentheses(value) != call)
            return;
        var awaited = SyntaxFactory.AwaitExpression(SyntaxFactory.Token(SyntaxKind.AwaitKeyword).WithTrailingTrivia(SyntaxFactory.Space), value.WithoutTrivia()).WithTriviaFrom(statement.Expression);
        context.RegisterCodeFix(
            CodeAction.Create(Title, _ => Task.FromResult(context.Document.WithSyntaxRoot(root.ReplaceNode(statement.Expression, awaited))), Title), context.Diagnostics);
    }

    private static ExpressionSyntax WithoutParentheses(ExpressionSyntax value)
    {
        while (value is ParenthesizedExpressionSyntax inner)
            value = inner.Expression;
        return value;
    }
}
