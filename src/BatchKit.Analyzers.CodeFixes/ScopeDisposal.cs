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

/// <summary>BK0003: disposes a scope at the end of the block that opens it.</summary>
[ExportCodeFixProvider(LanguageNames.CSharp)]
[Shared]
internal sealed class ScopeDisposal : CodeFixProvider
{
    private const string Title = "Dispose the scope at the end of the block";

    public override ImmutableArray<string> FixableDiagnosticIds { get; } = [Rules.OpenScope.Id];

    public override FixAllProvider GetFixAllProvider() => WellKnownFixAllProviders.BatchFixer;

    public override async Task RegisterCodeFixesAsync(CodeFixContext context)
    {
        var root = await context.Document.GetSyntaxRootAsync(context.CancellationToken).ConfigureAwait(false);
        var statement = root?.FindNode(context.Span).FirstAncestorOrSelf<StatementSyntax>();
        var opened = statement switch
        {
            LocalDeclarationStatementSyntax { Declaration.Variables.Count: 1 } local => local,
            ExpressionStatementSyntax { Expression: AssignmentExpressionSyntax discard } => Declare(discard.Right),
            ExpressionStatementSyntax { Expression: InvocationExpressionSyntax opening } => Declare(opening),
            _ => null,
        };
        if (root is null || opened is null || statement!.Parent is not (BlockSyntax or GlobalStatementSyntax or SwitchSectionSyntax))
            return;
        context.RegisterCodeFix(
            CodeAction.Create(Title, _ => Task.FromResult(context.Document.WithSyntaxRoot(root.ReplaceNode(statement, Dispose(opened, statement)))), Title), context.Diagnostics);
    }

    private static LocalDeclarationStatementSyntax Declare(ExpressionSyntax opening) => SyntaxFactory.LocalDeclarationStatement(SyntaxFactory.VariableDeclaration(
        SyntaxFactory.IdentifierName("var"),
        [SyntaxFactory.VariableDeclarator(SyntaxFactory.Identifier("scope"), argumentList: null, SyntaxFactory.EqualsValueClause(opening.WithoutTrivia()))]));

    private static LocalDeclarationStatementSyntax Dispose(LocalDeclarationStatementSyntax opened, StatementSyntax statement)
    {
        var disposed = opened.WithoutLeadingTrivia().WithUsingKeyword(SyntaxFactory.Token(SyntaxKind.UsingKeyword));

        // A writer can't be kept across an await.
        var isWriter = opened.DescendantTokens().Any(static token => token.ValueText == "BeginWriting");
        if (statement.MayAwait() && !isWriter)
            disposed = disposed.WithAwaitKeyword(SyntaxFactory.Token(SyntaxKind.AwaitKeyword));
        return disposed.WithTriviaFrom(statement).WithAdditionalAnnotations(Formatter.Annotation);
    }
}
