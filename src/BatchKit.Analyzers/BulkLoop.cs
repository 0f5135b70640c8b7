using System;
using System.Collections.Generic;
using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.Operations;

namespace BatchKit.Analyzers;

/// <summary>A loop that repeats a call many times at once: not one that retries, waits between its iterations, or runs for as long as the program does.</summary>
internal static class BulkLoop
{
    // An asynchronous source whose name begins with such a verb lasts as long as the program or a connection does.
    private static readonly string[] Streams = ["ReadAll", "Consume", "Subscribe", "Watch", "Listen", "Receive", "Stream"];

    /// <summary>Finds the loop around a call, or the call that repeats the function around it. A task that the loop starts may run longer than the loop.</summary>
    public static IOperation? Around(IOperation call, bool alsoInTasks = false)
    {
        var end = new IterationEnd();
        for (var (inner, outer) = (call, call.Parent); outer is not null; (inner, outer) = (outer, outer.Parent))
        {
            end.Look(inner, outer);
            switch (outer)
            {
                case ILoopOperation loop when inner == loop.Body:
                    if (end.LeavesFunction || !IsBulk(loop))
                        return null;
                    if (!end.Ends(loop))
                        return loop;
                    break;
                case IAnonymousFunctionOperation when alsoInTasks && TakerOf(outer) is { TargetMethod: { Name: "Run", ContainingType.Name: "Task" } }:
                    end = new IterationEnd();
                    break;
                case IAnonymousFunctionOperation:
                    return RepeaterOf(outer);
                case ILocalFunctionOperation local:
                    return local.Root().Descendants().OfType<IMethodReferenceOperation>()
                        .Where(reference => SymbolEqualityComparer.Default.Equals(reference.Method, local.Symbol)).Select(RepeaterOf).FirstOrDefault(static repeater => repeater is not null);
            }
        }

        return null;
    }

    private static IInvocationOperation? RepeaterOf(IOperation function) => TakerOf(function) is { } taker && Repeats(taker.TargetMethod) ? taker : null;

    private static IInvocationOperation? TakerOf(IOperation function) => function.Parent?.Parent?.Parent as IInvocationOperation;

    private static bool Repeats(IMethodSymbol method) => (method.ContainingType.Name, method.Name)
        is ("Enumerable", "Select" or "SelectMany") or ("List" or "Array", "ForEach") or ("Parallel", "For" or "ForAsync" or "ForEach" or "ForEachAsync");

    private static bool IsBulk(ILoopOperation loop)
    {
        var ends = loop switch
        {
            // An asynchronous source is a query if something is called for it; a variable may be anything.
            IForEachLoopOperation { IsAsynchronous: true } each =>
                !Calls(each.Collection, static name => Streams.Any(name.BeginsWithWord)) && Calls(each.Collection, static name => name is not ("WithCancellation" or "ConfigureAwait")),
            IForEachLoopOperation each => !Calls(each.Collection, static name => name == "GetConsumingEnumerable"),
            IForLoopOperation { Condition: { } condition } => Counts(condition),
            IWhileLoopOperation { Condition: { } condition } => Counts(condition),
            _ => false,
        };
        return ends && !Calls(loop.Body, static name => name is "Delay" or "Sleep" or "WaitForNextTickAsync");
    }

    // It compares numbers, or takes the next of what is there. Any other condition says how long a program or a connection lasts.
    private static bool Counts(IOperation condition) =>
        !condition.DescendantsAndSelf().Any(static part => part is IAwaitOperation)
        && (Calls(condition, static name => name.StartsWith("Try", StringComparison.Ordinal) || name is "MoveNext" or "Read")
            || condition.DescendantsAndSelf().Any(static part => part is IBinaryOperation { LeftOperand.Type: { } type } binary && IsInteger(type) && IsComparison(binary.OperatorKind)));

    private static bool IsInteger(ITypeSymbol type) => type.SpecialType is >= SpecialType.System_SByte and <= SpecialType.System_UInt64;

    private static bool IsComparison(BinaryOperatorKind kind) => kind
        is BinaryOperatorKind.LessThan or BinaryOperatorKind.LessThanOrEqual or BinaryOperatorKind.GreaterThan or BinaryOperatorKind.GreaterThanOrEqual or BinaryOperatorKind.NotEquals;

    private static bool Calls(IOperation operation, Func<string, bool> hasName) =>
        operation.DescendantsAndSelf().Any(part => part is IInvocationOperation call && hasName(call.TargetMethod.Name));
}
