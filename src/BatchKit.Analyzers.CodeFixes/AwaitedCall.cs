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
        var model = await context.Document.GetSemanticModelAsync(context.CancellationToken).ConfigureAwait(false);
        if (root is null || model is null || call?.Statement() is not ExpressionStatementSyntax statement || !statement.MayAwait(model))
            return;

        // A choice of two calls, or a call behind '?.', can't be awaited as it is.
        var value = statement.Value();
        if (WithoutForms(value) != call)
            return;
        var awaited = SyntaxFactory.AwaitExpression(SyntaxFactory.Token(SyntaxKind.AwaitKeyword).WithTrailingTrivia(SyntaxFactory.Space), value.WithoutTrivia()).WithTriviaFrom(statement.Expression);
        context.RegisterCodeFix(
            CodeAction.Create(Title, _ => Task.FromResult(context.Document.WithSyntaxRoot(root.ReplaceNode(statement.Expression, awaited))), Title), context.Diagnostics);
    }

    // The call inside parentheses, or in front of what gives its task another form.
    private static ExpressionSyntax WithoutForms(ExpressionSyntax value) => value switch
    {
        ParenthesizedExpressionSyntax inner => WithoutForms(inner.Expression),
        InvocationExpressionSyntax { Expression: MemberAccessExpressionSyntax { Name.Identifier.ValueText: "ConfigureAwait" or "AsTask" or "Preserve" } form } => WithoutForms(form.Expression),
        _ => value,
    };
}
