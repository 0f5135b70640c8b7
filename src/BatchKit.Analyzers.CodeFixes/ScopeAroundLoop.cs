using System.Collections.Immutable;
using System.Composition;
using System.Linq;
using System.Threading.Tasks;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CodeActions;
using Microsoft.CodeAnalysis.CodeFixes;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;
using Microsoft.CodeAnalysis.Formatting;

namespace BatchKit.Analyzers.CodeFixes;

/// <summary>BK0001 and BK0002: opens a scope around a loop that writes to a buffer.</summary>
[ExportCodeFixProvider(LanguageNames.CSharp)]
[Shared]
internal sealed class ScopeAroundLoop : CodeFixProvider
{
    private const string Title = "Open a buffering scope around the loop";

    public override ImmutableArray<string> FixableDiagnosticIds { get; } = [Rules.SendLoop.Id, Rules.WriteLoop.Id];

    // Two loops may be nested, and one scope covers both.
    public override FixAllProvider? GetFixAllProvider() => null;

    public override async Task RegisterCodeFixesAsync(CodeFixContext context)
    {
        var diagnostic = context.Diagnostics[0];
        var root = await context.Document.GetSyntaxRootAsync(context.CancellationToken).ConfigureAwait(false);
        var parts = diagnostic.AdditionalLocations.Select(location => root?.FindNode(location.SourceSpan, getInnermostNodeForTie: true)).ToArray();
        var model = await context.Document.GetSemanticModelAsync(context.CancellationToken).ConfigureAwait(false);
        if (root is null || model is null || parts.FirstOrDefault() is not StatementSyntax loop || parts.ElementAtOrDefault(1) is not ExpressionSyntax output)
            return;

        // The directive that ends what one begins may stand behind the loop, and the scope's brace would come between them.
        if (loop.WithoutLeadingTrivia().ContainsDirectives)
            return;
        var handle = parts.ElementAtOrDefault(2) as ExpressionSyntax;
        var isTyped = model.GetTypeInfo(output, context.CancellationToken).Type is { Name: "TypedOutput" };
        var scope = Open(output, isTyped, handle);

        // A buffer without a name of its own, or one that opens scopes only as an IOutputBuffer, can't be called so.
        if (model.GetSpeculativeSymbolInfo(loop.SpanStart, scope, SpeculativeBindingOption.BindAsExpression).Symbol is not IMethodSymbol { ReturnType.Name: "BufferingScope" })
            return;
        context.RegisterCodeFix(
            CodeAction.Create(Title, _ => Task.FromResult(context.Document.WithSyntaxRoot(root.ReplaceNode(loop, Wrap(loop, scope, loop.MayAwait(model))))), Title), diagnostic);
    }

    private static ExpressionSyntax Open(ExpressionSyntax output, bool isTyped, ExpressionSyntax? handle)
    {
        var called = output is CastExpressionSyntax or BinaryExpressionSyntax ? $"({output.WithoutTrivia()})" : $"{output.WithoutTrivia()}";
        if (output.FirstAncestorOrSelf<ExpressionSyntax>(static outer => outer.Parent is not ParenthesizedExpressionSyntax)?.Parent is PostfixUnaryExpressionSyntax)
            called += "!";
        return SyntaxFactory.ParseExpression($"{called}{(isTyped ? ".Buffer" : "")}.BeginBufferingScope({handle?.WithoutTrivia()})");
    }

    private static UsingStatementSyntax Wrap(StatementSyntax loop, ExpressionSyntax scope, bool isAsync)
    {
        var wrapped = SyntaxFactory.UsingStatement(declaration: null, scope, SyntaxFactory.Block(loop.WithoutLeadingTrivia()));
        if (isAsync)
            wrapped = wrapped.WithAwaitKeyword(SyntaxFactory.Token(SyntaxKind.AwaitKeyword));
        return wrapped.WithLeadingTrivia(loop.GetLeadingTrivia())
            .WithTrailingTrivia(loop.GetTrailingTrivia().Where(static trivia => trivia.IsKind(SyntaxKind.EndOfLineTrivia)))
            .WithAdditionalAnnotations(Formatter.Annotation);
    }
}
