using System.Collections.Generic;
using System.Collections.Immutable;
using System.Composition;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CodeActions;
using Microsoft.CodeAnalysis.CodeFixes;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;
using Microsoft.CodeAnalysis.Formatting;

namespace BatchKit.Analyzers.CodeFixes;

/// <summary>BK0003: disposes a scope at the end of the block that opens it.</summary>
[ExportCodeFixProvider(LanguageNames.CSharp)]
[Shared]
internal sealed class ScopeDisposal : CodeFixProvider
{
    private const string Title = "Dispose the scope at the end of the block";

    public override ImmutableArray<string> FixableDiagnosticIds { get; } = [Rules.OpenScope.Id];

    // Fixes that do not know of each other would give two scopes of a block one name.
    public override FixAllProvider GetFixAllProvider() => FixAllProvider.Create(
        static async (context, document, diagnostics) => await DisposeAsync(document, diagnostics, context.CancellationToken).ConfigureAwait(false));

    public override async Task RegisterCodeFixesAsync(CodeFixContext context)
    {
        var root = await context.Document.GetSyntaxRootAsync(context.CancellationToken).ConfigureAwait(false);
        var model = await context.Document.GetSemanticModelAsync(context.CancellationToken).ConfigureAwait(false);
        if (root?.FindCall(context.Span) is not { } call || model is null || OpenedScope.TryGet(model, call) is null)
            return;
        context.RegisterCodeFix(CodeAction.Create(Title, cancellationToken => DisposeAsync(context.Document, context.Diagnostics, cancellationToken), Title), context.Diagnostics);
    }

    private static async Task<Document> DisposeAsync(Document document, IEnumerable<Diagnostic> diagnostics, CancellationToken cancellationToken)
    {
        var root = await document.GetSyntaxRootAsync(cancellationToken).ConfigureAwait(false);
        var model = await document.GetSemanticModelAsync(cancellationToken).ConfigureAwait(false);
        if (root is null || model is null)
            return document;
        var names = new FreeNames(model);
        var disposed = new Dictionary<StatementSyntax, LocalDeclarationStatementSyntax>();
        foreach (var call in diagnostics.OrderBy(static diagnostic => diagnostic.Location.SourceSpan.Start).Select(diagnostic => root.FindCall(diagnostic.Location.SourceSpan)))
        {
            if (call is not null && OpenedScope.TryGet(model, call) is { } scope && !disposed.ContainsKey(scope.Statement))
                disposed[scope.Statement] = Dispose(scope, names);
        }

        return document.WithSyntaxRoot(root.ReplaceNodes(disposed.Keys, (statement, _) => disposed[statement]));
    }

    private static LocalDeclarationStatementSyntax Dispose(OpenedScope scope, FreeNames names)
    {
        var opened = scope.Statement as LocalDeclarationStatementSyntax ?? Declare(names.Take(scope.Statement, "scope"), ((ExpressionStatementSyntax)scope.Statement).Value());
        var disposed = opened.WithoutLeadingTrivia().WithUsingKeyword(SyntaxFactory.Token(SyntaxKind.UsingKeyword));
        if (scope.IsAsync)
            disposed = disposed.WithAwaitKeyword(SyntaxFactory.Token(SyntaxKind.AwaitKeyword));
        return disposed.WithTriviaFrom(scope.Statement).WithAdditionalAnnotations(Formatter.Annotation);
    }

    private static LocalDeclarationStatementSyntax Declare(string name, ExpressionSyntax opening) => SyntaxFactory.LocalDeclarationStatement(SyntaxFactory.VariableDeclaration(
        SyntaxFactory.IdentifierName("var"),
        [SyntaxFactory.VariableDeclarator(SyntaxFactory.Identifier(name), argumentList: null, SyntaxFactory.EqualsValueClause(opening.WithoutTrivia()))]));
}
