using System.Collections.Generic;
using System.Collections.Immutable;
using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;
using Microsoft.CodeAnalysis.Diagnostics;
using Microsoft.CodeAnalysis.Operations;

namespace BatchKit.Analyzers;

/// <summary>BK0002: a loop that writes to one handle outside a scope. A loop over many handles is left alone, because sends batch what is written meanwhile.</summary>
[DiagnosticAnalyzer(LanguageNames.CSharp)]
internal sealed class WriteLoopAnalyzer() : BufferAnalyzer(OperationKind.Invocation, Rules.WriteLoop)
{
    // What these wait for may be an answer to what the loop wrote.
    private static readonly string[] Waits = ["Read", "Receive", "Wait", "GetResult"];

    private static readonly string[] Moving = ["Move", "Read", "Next"];

    /// <summary>The first write of a loop, if the loop has no scope and one can be opened around it. The loop may wait for its writes and for sends like the given one.</summary>
    public static UnscopedWrite? FindUnscopedWrite(IOperation repeater, BufferTypes buffers, IInvocationOperation? send = null)
    {
        if (repeater is not ILoopOperation loop || loop.IsInScope() || loop.Body.DescendantsAndSelf().Any(part => WaitsForOthers(part, buffers, send)))
            return null;
        var calls = loop.Body.DescendantsAndSelf().OfType<IInvocationOperation>().Where(buffers.IsBufferCall).ToArray();
        if (calls.Any(static call => call.TargetMethod.Name is "FlushAsync" or "WhenSettledAsync" or "EndBufferingScope"))
            return null;
        return calls.FirstOrDefault(call => IsWrite(call) && BulkLoop.Around(call) == loop) is { } write && write.Receiver() is { } output && IsInvariant(output, loop)
            ? new UnscopedWrite(loop, write, output, calls.Where(IsWrite))
            : null;
    }

    protected override void Analyze(OperationAnalysisContext context, BufferTypes buffers)
    {
        var call = (IInvocationOperation)context.Operation;
        if (IsWrite(call) && buffers.IsBufferCall(call) && BulkLoop.Around(call) is { } loop && FindUnscopedWrite(loop, buffers) is { Handle: not null } write && write.Call == call && !IsReply(write, context.ContainingSymbol, buffers))
            context.ReportDiagnostic(Diagnostic.Create(Rules.WriteLoop, call.NameLocation(), write.Locations));
    }

    // A scope on the connection is open while its handler receives. A handle that the handler was given is taken for its connection's.
    private static bool IsReply(UnscopedWrite write, ISymbol containing, BufferTypes buffers) =>
        write.Handle is IPropertyReferenceOperation { Property.ContainingType.Name: "ClientConnection" } or IParameterReferenceOperation or IFieldReferenceOperation { Instance: IInstanceReferenceOperation }
        && buffers.IsConnectionHandler(containing.ContainingType) && write.Call.IsInMember("ReceiveAsync");

    // A scope would hold back a prompt until the loop ends, and show the progress of long work when it is over.
    private static bool WaitsForOthers(IOperation part, BufferTypes buffers, IInvocationOperation? send) => part switch
    {
        IAwaitOperation wait => !IsWriteOrSend(wait.Operation, buffers, send),
        IForEachLoopOperation { IsAsynchronous: true } or IUsingOperation { IsAsynchronous: true } or IUsingDeclarationOperation { IsAsynchronous: true } => true,
        IReturnOperation { Kind: OperationKind.YieldReturn } => true,
        IPropertyReferenceOperation { Property: { Name: "Result", ContainingType.Name: "Task" or "ValueTask" } } => true,
        IInvocationOperation { TargetMethod: var method } => method.ContainingType.Name != "File" && Waits.Any(method.Name.BeginsWithWord),
        _ => false,
    };

    private static bool IsWriteOrSend(IOperation task, BufferTypes buffers, IInvocationOperation? send)
    {
        while (task is IInvocationOperation { Instance: { } inner } form && form.IsTaskForm())
            task = inner;
        return task is IInvocationOperation call
            && ((IsWrite(call) && buffers.IsBufferCall(call)) || SymbolEqualityComparer.Default.Equals(call.TargetMethod.OriginalDefinition, send?.TargetMethod.OriginalDefinition));
    }

    private static bool IsWrite(IInvocationOperation call) => call.TargetMethod.Name is "Write" or "TryWrite" or "WriteAsync";

    private static bool IsInvariant(IOperation value, ILoopOperation loop) => value.DescendantsAndSelf().All(part => part switch
    {
        IPropertyReferenceOperation { Instance: { } owner } property => IsInvariant(property.Property, loop) && !Moves(loop, owner) && !TestsForNull(loop, owner),
        ILocalReferenceOperation or IParameterReferenceOperation or IFieldReferenceOperation or IPropertyReferenceOperation => IsInvariant(Symbol(part)!, loop),
        IInvocationOperation call => call.TargetMethod.ContainingType.Name == "OutputHandle",
        IInstanceReferenceOperation or ILiteralOperation or IConversionOperation or IArgumentOperation => true,
        _ => false,
    });

    private static bool IsInvariant(ISymbol variable, ILoopOperation loop) =>
        !variable.DeclaringSyntaxReferences.Any(declared => declared.SyntaxTree == loop.Syntax.SyntaxTree && loop.Syntax.Span.Contains(declared.Span))
        && !Changes(loop, variable)
        && !loop.Root().Descendants().Any(part => part is ILocalFunctionOperation or IAnonymousFunctionOperation && Changes(part, variable));

    // An enumerator or a reader: its properties are the next item's in each iteration, and no item's before the loop.
    private static bool Moves(ILoopOperation loop, IOperation owner) => loop.Descendants().Any(part =>
        part is IInvocationOperation { Instance: { } instance, TargetMethod.Name: var name } && Moving.Any(name.BeginsWithWord) && SyntaxFactory.AreEquivalent(instance.Syntax, owner.Syntax));

    // Before the loop it may be null.
    private static bool TestsForNull(ILoopOperation loop, IOperation owner) => loop.Descendants().Any(part => part switch
    {
        IIsPatternOperation test => SyntaxFactory.AreEquivalent(test.Value.Syntax, owner.Syntax),
        IBinaryOperation { OperatorKind: BinaryOperatorKind.Equals or BinaryOperatorKind.NotEquals } test =>
            SyntaxFactory.AreEquivalent(test.LeftOperand.Syntax, owner.Syntax) || SyntaxFactory.AreEquivalent(test.RightOperand.Syntax, owner.Syntax),
        _ => false,
    });

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

    /// <summary>A write of a loop without a scope, and where the fix finds what it puts together.</summary>
    internal sealed class UnscopedWrite(ILoopOperation loop, IInvocationOperation call, IOperation output, IEnumerable<IInvocationOperation> writes)
    {
        public IInvocationOperation Call => call;

        /// <summary>Null when the loop writes to several.</summary>
        public IOperation? Handle { get; } =
            BufferTypes.HandleOf(call) is { Value: { } handle } && IsInvariant(handle, loop) && writes.All(write => SyntaxFactory.AreEquivalent(BufferTypes.HandleOf(write)?.Value.Syntax, handle.Syntax)) ? handle : null;

        /// <summary>The loop, the buffer and, if it is the same in each iteration, the handle.</summary>
        public ImmutableArray<Location> Locations =>
            [loop.Syntax.GetLocation(), output.Syntax.GetLocation(), .. Handle is null ? ImmutableArray<Location>.Empty : [Handle.Syntax.GetLocation()]];
    }
}
