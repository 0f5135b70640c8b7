using System.Collections.Generic;
using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.Operations;

namespace BatchKit.Analyzers;

/// <summary>What an iteration does after a call that succeeded: it may end its loop, as one that tries again does.</summary>
internal sealed class IterationEnd
{
    private readonly List<ILabelSymbol> _exits = [];

    // True after the call.
    private readonly List<ILocalSymbol> _successes = [];

    public bool LeavesFunction { get; private set; }

    /// <summary>Looks at the operation around the call, from the inside out.</summary>
    /// <param name="inner">The call, or what was looked at before.</param>
    /// <param name="outer">The operation around it.</param>
    public void Look(IOperation inner, IOperation outer)
    {
        switch (outer)
        {
            case IReturnOperation:
                LeavesFunction = true;
                break;
            case ISimpleAssignmentOperation { Target: ILocalReferenceOperation { Local: var success } } when IsResult(inner):
                _successes.Add(success);
                break;
            case IVariableInitializerOperation { Parent: IVariableDeclaratorOperation { Symbol: var success } } when IsResult(inner):
                _successes.Add(success);
                break;
            case IConditionalOperation choice when choice.Condition == inner && IsResult(inner):
                FollowAll(choice.WhenTrue);
                break;
            case IBlockOperation or ISwitchCaseOperation:
                foreach (var later in outer.ChildOperations.SkipWhile(child => child != inner).Skip(1))
                    Follow(later);
                break;
        }
    }

    public bool Ends(ILoopOperation loop) => _exits.Contains(loop.ExitLabel, SymbolEqualityComparer.Default) || ConditionOf(loop)?.DescendantsAndSelf().Any(IsNegated) == true;

    // A negated one is true when the call has failed.
    private static bool IsResult(IOperation inner) => inner is IInvocationOperation or IAwaitOperation;

    private static IOperation? ConditionOf(ILoopOperation loop) => loop switch
    {
        IForLoopOperation { Condition: var condition } => condition,
        IWhileLoopOperation { Condition: var condition } => condition,
        _ => null,
    };

    private bool IsNegated(IOperation part) => part is IUnaryOperation { OperatorKind: UnaryOperatorKind.Not, Operand: var operand } && IsSuccess(operand);

    private bool IsSuccess(IOperation value) => value is ILocalReferenceOperation { Local: var local } && _successes.Contains(local, SymbolEqualityComparer.Default);

    private void FollowAll(IOperation branch)
    {
        foreach (var part in branch is IBlockOperation block ? block.Operations : [branch])
            Follow(part);
    }

    private void Follow(IOperation later)
    {
        switch (later)
        {
            case IReturnOperation { Kind: OperationKind.Return, IsImplicit: false }:
                LeavesFunction = true;
                break;
            case IBranchOperation { BranchKind: BranchKind.Break } exit:
                _exits.Add(exit.Target);
                break;
            case IExpressionStatementOperation { Operation: ISimpleAssignmentOperation { Target: ILocalReferenceOperation { Local: var success }, Value.ConstantValue: { HasValue: true, Value: true } } }:
                _successes.Add(success);
                break;
            case IConditionalOperation choice when IsSuccess(choice.Condition):
                FollowAll(choice.WhenTrue);
                break;
        }
    }
}
