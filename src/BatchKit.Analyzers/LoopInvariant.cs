using System.Collections.Generic;
using System.Collections.Immutable;
using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;
using Microsoft.CodeAnalysis.Operations;

namespace BatchKit.Analyzers;

/// <summary>Whether an expression of a loop can be read before it, and is the same in each iteration.</summary>
internal static class LoopInvariant
{
    private static readonly string[] Moving = ["Move", "Read", "Next"];

    public static bool IsInvariantIn(this IOperation value, ILoopOperation loop) => value.DescendantsAndSelf().All(part => part switch
    {
        IPropertyReferenceOperation { Instance: { } owner } when Moves(loop, owner) => false,
        ILocalReferenceOperation or IParameterReferenceOperation or IFieldReferenceOperation or IPropertyReferenceOperation =>
            IsInvariant(Symbol(part)!, loop) && !loop.Descendants().Any(mention => IsSame(mention, part) && IsTested(mention)),
        IInvocationOperation call => call.TargetMethod.ContainingType.Name == "OutputHandle",
        IInstanceReferenceOperation or ILiteralOperation or IConversionOperation or IArgumentOperation => true,
        _ => false,
    });

    private static bool IsInvariant(ISymbol variable, ILoopOperation loop) =>
        !variable.DeclaringSyntaxReferences.Any(declared => declared.SyntaxTree == loop.Syntax.SyntaxTree && loop.Syntax.Span.Contains(declared.Span))
        && !Changes(loop, variable)
        && !loop.Root().Descendants().Any(part => part is ILocalFunctionOperation or IAnonymousFunctionOperation && Changes(part, variable))
        && !MayBeChangedByCalls(variable, loop);

    // An enumerator or a reader: its properties are the next item's in each iteration, and no item's before the loop.
    private static bool Moves(ILoopOperation loop, IOperation owner) => loop.Descendants().Any(part =>
        part is IInvocationOperation { Instance: { } instance, TargetMethod.Name: var name } && Moving.Any(name.BeginsWithWord) && SyntaxFactory.AreEquivalent(instance.Syntax, owner.Syntax));

    // Before the loop it may be null, or no handle.
    private static bool IsTested(IOperation mention)
    {
        var (inner, test) = (mention, mention.Parent);
        while (test is IConversionOperation or IParenthesizedOperation)
            (inner, test) = (test, test.Parent);
        return test switch
        {
            IIsPatternOperation or IIsTypeOperation or IConditionalAccessOperation or ICoalesceOperation or ISwitchOperation or ISwitchExpressionOperation => true,
            IPropertyReferenceOperation { Property.Name: "HasValue" or "IsNone" or "IsConnection" or "Length" } => true,
            IBinaryOperation { Type.SpecialType: SpecialType.System_Boolean } comparison =>
                mention.Type?.Name != "OutputHandle" || comparison.Descendants().Any(static part => part is IDefaultValueOperation),
            IArgumentOperation { Parent: IInvocationOperation { Type.SpecialType: SpecialType.System_Boolean } call } =>
                mention.Type?.Name != "OutputHandle" && call.Receiver() != inner && !WriteLoopAnalyzer.IsWrite(call),
            _ => false,
        };
    }

    private static bool IsSame(IOperation left, IOperation right) => Symbol(left) is { } symbol && SymbolEqualityComparer.Default.Equals(symbol, Symbol(right));

    // A getter that only names others changes as they do. What only constructors set is no longer changed.
    private static bool MayBeChangedByCalls(ISymbol variable, ILoopOperation loop)
    {
        var getter = (variable as IPropertySymbol)?.GetMethod?.DeclaringSyntaxReferences.SelectMany(static declared => declared.GetSyntax().DescendantNodes()).ToArray() ?? [];
        if (getter.Any(Computes))
            return true;
        if (variable is ILocalSymbol or IParameterSymbol { ContainingSymbol: not IMethodSymbol { MethodKind: MethodKind.Constructor } })
            return false;
        var type = variable.ContainingType;
        if (!loop.Descendants().OfType<IInvocationOperation>().Any(call => call.Instance is IInstanceReferenceOperation || SymbolEqualityComparer.Default.Equals(call.TargetMethod.ContainingType, type)))
            return false;
        var names = getter.OfType<SimpleNameSyntax>().Select(static name => name.Identifier.ValueText).Concat([variable.Name]).ToImmutableHashSet(StringComparer.Ordinal);
        return type.DeclaringSyntaxReferences.SelectMany(static declared => declared.GetSyntax().DescendantNodes()).Any(node =>
            Target(node) is { } target && target.DescendantNodesAndSelf().Any(part => part is SimpleNameSyntax name && names.Contains(name.Identifier.ValueText))
            && node.FirstAncestorOrSelf<ConstructorDeclarationSyntax>() is null);
    }

    private static bool Computes(SyntaxNode part) => part
        is ElementAccessExpressionSyntax or ConditionalExpressionSyntax or SwitchExpressionSyntax or BaseObjectCreationExpressionSyntax or ThrowExpressionSyntax
        || Target(part) is not null
        || (part is InvocationExpressionSyntax call && call.Expression is not MemberAccessExpressionSyntax { Expression: SimpleNameSyntax { Identifier.ValueText: "OutputHandle" } });

    private static ExpressionSyntax? Target(SyntaxNode node) => node switch
    {
        AssignmentExpressionSyntax { Parent: not InitializerExpressionSyntax } assignment => assignment.Left,
        PrefixUnaryExpressionSyntax { RawKind: (int)SyntaxKind.PreIncrementExpression or (int)SyntaxKind.PreDecrementExpression } step => step.Operand,
        PostfixUnaryExpressionSyntax { RawKind: (int)SyntaxKind.PostIncrementExpression or (int)SyntaxKind.PostDecrementExpression } step => step.Operand,
        ArgumentSyntax { RefKindKeyword.RawKind: (int)SyntaxKind.RefKeyword or (int)SyntaxKind.OutKeyword } argument => argument.Expression,
        _ => null,
    };

    private static bool Changes(IOperation code, ISymbol variable) =>
        code.Descendants().SelectMany(Targets).Any(target => SymbolEqualityComparer.Default.Equals(Symbol(target), variable));

    private static IEnumerable<IOperation> Targets(IOperation operation) => operation switch
    {
        IAssignmentOperation assignment => assignment.Target.DescendantsAndSelf().Where(static part => part.Parent is ITupleOperation or IAssignmentOperation),
        IIncrementOrDecrementOperation step => [step.Target],
        IArgumentOperation { Parameter.RefKind: RefKind.Ref or RefKind.Out } argument => [argument.Value],
        _ => [],
    };

    private static ISymbol? Symbol(IOperation operation) => operation switch
    {
        ILocalReferenceOperation local => local.Local,
        IParameterReferenceOperation parameter => parameter.Parameter,
        IMemberReferenceOperation member => member.Member,
        _ => null,
    };
}
