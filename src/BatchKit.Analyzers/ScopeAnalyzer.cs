using System.Collections.Immutable;
using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.Diagnostics;
using Microsoft.CodeAnalysis.Operations;

namespace BatchKit.Analyzers;

/// <summary>BK0003 to BK0005: what becomes of a scope that a call opens.</summary>
[DiagnosticAnalyzer(LanguageNames.CSharp)]
internal sealed class ScopeAnalyzer() : BufferAnalyzer(OperationKind.Invocation, Rules.OpenScope, Rules.ScopeInField, Rules.LostAmbientScope)
{
    private const string UseUsing = "Open it with 'using' or 'await using'";

    protected override void Analyze(OperationAnalysisContext context, BufferTypes buffers)
    {
        var opening = (IInvocationOperation)context.Operation;
        if (!buffers.IsOpening(opening))
            return;
        var isAmbient = BufferTypes.HandleOf(opening) is null;
        switch (opening.Consumer())
        {
            case var consumer when buffers.IsWriter(opening.TargetMethod.ReturnType):
                if (IsNeverDisposed(consumer))
                    Report(Rules.OpenScope, "Begin it with 'using'");
                break;
            case IExpressionStatementOperation:
                Report(Rules.OpenScope, isAmbient ? UseUsing : $"{UseUsing}, or write '_ =' and end it with EndBufferingScope");
                break;
            case ISimpleAssignmentOperation { Target: IMemberReferenceOperation member }:
                ReportKept(member.Member);
                break;
            case IFieldInitializerOperation initializer:
                ReportKept(initializer.InitializedFields[0]);
                break;
            case IPropertyInitializerOperation initializer:
                ReportKept(initializer.InitializedProperties[0]);
                break;
            case ISimpleAssignmentOperation { Target: IDiscardOperation } when isAmbient:
            case IVariableInitializerOperation { Parent: IVariableDeclaratorOperation unused } when UsesOf(unused).Length == 0 && !IsUsing(unused):
                Report(Rules.OpenScope, UseUsing);
                break;
            case IReturnOperation:
            case IVariableInitializerOperation { Parent: IVariableDeclaratorOperation used } when UsesOf(used).Any(static use => use.Consumer() is IReturnOperation):
                if (isAmbient && opening.Function(context.ContainingSymbol) is { IsAsync: true })
                    Report(Rules.LostAmbientScope);
                break;
        }

        void ReportKept(ISymbol member)
        {
            if (!HasLimit(opening))
                Report(Rules.ScopeInField, member.Name);
        }

        void Report(DiagnosticDescriptor rule, params object[] arguments) => context.ReportDiagnostic(Diagnostic.Create(rule, opening.NameLocation(), arguments));
    }

    // A writer can't leave its method but by a return.
    private static bool IsNeverDisposed(IOperation? consumer) => consumer switch
    {
        IExpressionStatementOperation or ISimpleAssignmentOperation { Target: IDiscardOperation } => true,
        IVariableInitializerOperation { Parent: IVariableDeclaratorOperation kept } => !IsUsing(kept) && !UsesOf(kept).Any(static use => use.Consumer() is IReturnOperation || use.Parent is IInvocationOperation { TargetMethod.Name: "Dispose" }),
        _ => false,
    };

    // A limit's output leaves although the scope stays open.
    private static bool HasLimit(IInvocationOperation opening) =>
        opening.Arguments.Any(static argument => argument is { Parameter.Name: "maxHold", ArgumentKind: ArgumentKind.Explicit, Value.ConstantValue.HasValue: false });

    private static bool IsUsing(IVariableDeclaratorOperation declared)
    {
        IOperation? outer = declared;
        while (outer is IVariableDeclaratorOperation or IVariableDeclarationOperation or IVariableDeclarationGroupOperation)
            outer = outer.Parent;
        return outer is IUsingOperation or IUsingDeclarationOperation;
    }

    private static ImmutableArray<IOperation> UsesOf(IVariableDeclaratorOperation declared)
    {
        IOperation root = declared;
        while (root.Parent is { } outer)
            root = outer;
        return [.. root.Descendants().Where(part => part is ILocalReferenceOperation use && SymbolEqualityComparer.Default.Equals(use.Local, declared.Symbol))];
    }
}
