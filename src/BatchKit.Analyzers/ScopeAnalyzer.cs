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
        var misuse = buffers.IsWriter(opening.TargetMethod.ReturnType) ? OfWriter(opening) : OfScope(opening, context.ContainingSymbol);
        if (misuse is var (rule, argument))
            context.ReportDiagnostic(Diagnostic.Create(rule, opening.NameLocation(), argument));
    }

    private static (DiagnosticDescriptor Rule, string? Argument)? OfWriter(IInvocationOperation opening) =>
        IsNeverDisposed(opening, opening.Consumer()) ? (Rules.OpenScope, "Begin it with 'using'") : null;

    private static (DiagnosticDescriptor Rule, string? Argument)? OfScope(IInvocationOperation opening, ISymbol containing) => opening.Consumer() switch
    {
        IExpressionStatementOperation when !IsAmbient(opening) && EndsScopes(opening.Root()) => null,
        IExpressionStatementOperation => (Rules.OpenScope, IsAmbient(opening) ? UseUsing : $"{UseUsing}, or write '_ =' and end it with EndBufferingScope"),
        ISimpleAssignmentOperation { Target: IDiscardOperation } => IsAmbient(opening) ? (Rules.OpenScope, UseUsing) : null,
        IVariableInitializerOperation { Parent: IVariableDeclaratorOperation local } => IsUsing(local) ? null : OfLocal(opening, UsesOf(local), containing),
        IReturnOperation => OfReturned(opening, containing),
        _ => OfKept(opening, ScopeKeeper.Of(opening)),
    };

    private static (DiagnosticDescriptor Rule, string? Argument)? OfLocal(IInvocationOperation opening, ImmutableArray<IOperation> uses, ISymbol containing)
    {
        if (uses.Length == 0)
            return (Rules.OpenScope, UseUsing);
        if (uses.Any(static use => use.Consumer() is IReturnOperation))
            return OfReturned(opening, containing);
        return uses.Any(IsDisposal) ? null : OfKept(opening, uses.Select(ScopeKeeper.Of).FirstOrDefault(static member => member is not null));
    }

    private static (DiagnosticDescriptor Rule, string? Argument)? OfReturned(IInvocationOperation opening, ISymbol containing) =>
        IsAmbient(opening) && opening.Function(containing) is { IsAsync: true } ? (Rules.LostAmbientScope, null) : null;

    private static (DiagnosticDescriptor Rule, string? Argument)? OfKept(IInvocationOperation opening, ISymbol? member) =>
        member is null || HasLimit(opening) ? null : (Rules.ScopeInField, member.Name);

    private static bool EndsScopes(IOperation body) => body.Descendants().Any(static part => part is IInvocationOperation { TargetMethod.Name: "EndBufferingScope" });

    private static bool IsAmbient(IInvocationOperation opening) => BufferTypes.HandleOf(opening) is null;

    // A writer can't leave its method but by a return.
    private static bool IsNeverDisposed(IInvocationOperation opening, IOperation? consumer) => consumer switch
    {
        IInvocationOperation call => call.Instance == opening && call.TargetMethod.Name != "Dispose",
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

    // A call behind '?.' is taken for one.
    private static bool IsDisposal(IOperation use) => use.Consumer() is IInvocationOperation { TargetMethod.Name: "Dispose" or "DisposeAsync" } or IConditionalAccessOperation or IUsingOperation;

    private static ImmutableArray<IOperation> UsesOf(IVariableDeclaratorOperation declared) =>
        [.. declared.Root().Descendants().Where(part => part is ILocalReferenceOperation use && SymbolEqualityComparer.Default.Equals(use.Local, declared.Symbol))];
}

/// <summary>Finds the field or property that keeps a value beyond its method.</summary>
internal static class ScopeKeeper
{
    /// <summary>The member that a value is assigned or added to; null for a local variable.</summary>
    public static ISymbol? Of(IOperation value) => value.Consumer() switch
    {
        IAssignmentOperation { Target: var target } and not IDeconstructionAssignmentOperation => MemberOf(target),
        IFieldInitializerOperation initializer => initializer.InitializedFields[0],
        IPropertyInitializerOperation initializer => initializer.InitializedProperties[0],
        ITupleOperation tuple when tuple.Consumer() is IDeconstructionAssignmentOperation { Target: ITupleOperation targets } =>
            MemberOf(targets.Elements[tuple.Elements.TakeWhile(element => !element.DescendantsAndSelf().Contains(value)).Count()]),
        IArgumentOperation { Parent: IInvocationOperation { TargetMethod.Name: "Add" or "TryAdd" or "Enqueue" or "Push" } call } => MemberOf(call.Instance),
        _ => null,
    };

    // An element is kept by the member that has the collection.
    private static ISymbol? MemberOf(IOperation? place) => place switch
    {
        IPropertyReferenceOperation { Property.IsIndexer: true, Instance: var collection } => MemberOf(collection),
        IArrayElementReferenceOperation { ArrayReference: var array } => MemberOf(array),
        IMemberReferenceOperation { Member: var member } => member,
        _ => null,
    };
}
