using System.Collections.Generic;
using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace BatchKit.Analyzers.CodeFixes;

/// <summary>A statement that opens a scope, and that may become a using declaration.</summary>
internal sealed class OpenedScope
{
    private const string Writer = "MessageWriter";

    private OpenedScope(StatementSyntax statement, bool isAsync) => (Statement, IsAsync) = (statement, isAsync);

    /// <summary>A declaration of one variable, or an expression statement.</summary>
    public StatementSyntax Statement { get; }

    /// <summary>False for a writer, for a variable that is only an <see cref="System.IDisposable"/>, and where no await may stand.</summary>
    public bool IsAsync { get; }

    /// <summary>Null where a using declaration would not compile, or would dispose something else.</summary>
    public static OpenedScope? TryGet(SemanticModel model, InvocationExpressionSyntax opening)
    {
        var statement = opening.Statement();
        if (statement is null || SiblingsOf(statement) is not { } siblings || siblings.Any(static sibling => sibling is LabeledStatementSyntax))
            return null;
        var type = TypeOf(model, statement, opening, siblings);
        if (type is INamedTypeSymbol { OriginalDefinition.SpecialType: SpecialType.System_Nullable_T } nullable)
            type = nullable.TypeArguments[0];
        return type switch
        {
            { SpecialType: SpecialType.System_IDisposable } or { Name: Writer } => new OpenedScope(statement, isAsync: false),
            { Name: "BufferingScope" } => new OpenedScope(statement, statement.MayAwait(model)),
            _ => null,
        };
    }

    // What the using declaration would dispose; null where it can't declare it.
    private static ITypeSymbol? TypeOf(SemanticModel model, StatementSyntax statement, InvocationExpressionSyntax opening, IEnumerable<StatementSyntax> siblings) => statement switch
    {
        LocalDeclarationStatementSyntax { Declaration.Variables: { Count: 1 } variables } when model.GetDeclaredSymbol(variables[0]) is ILocalSymbol local =>
            siblings.Any(sibling => sibling != statement && IsSetIn(sibling, model, local)) ? null : local.Type,
        // As a statement it has no type. A variable would have a nullable one, which a writer can't be.
        ExpressionStatementSyntax { Expression: ConditionalAccessExpressionSyntax } => model.GetTypeInfo(opening).Type is { Name: not Writer } type ? type : null,
        ExpressionStatementSyntax expression => model.GetTypeInfo(expression.Value()).Type,
        _ => null,
    };

    // The statements of its block. A section of a switch may declare no scope, and a jump may not cross one.
    private static IEnumerable<StatementSyntax>? SiblingsOf(StatementSyntax statement) => statement.Parent switch
    {
        BlockSyntax block => block.Statements,
        GlobalStatementSyntax { Parent: CompilationUnitSyntax program } => program.Members.OfType<GlobalStatementSyntax>().Select(static member => member.Statement),
        _ => null,
    };

    // The variable of a using declaration can't be set again, nor passed by reference.
    private static bool IsSetIn(StatementSyntax statement, SemanticModel model, ILocalSymbol local) =>
        model.AnalyzeDataFlow(statement) is { Succeeded: true } flow && flow.WrittenInside.Contains(local, SymbolEqualityComparer.Default);
}
