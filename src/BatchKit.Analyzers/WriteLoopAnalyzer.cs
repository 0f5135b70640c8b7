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

    /// <summary>The first write of a loop, if the loop has no scope and one can be opened around it. The loop may wait for its writes and for sends like the given one.</summary>
    public static UnscopedWrite? FindUnscopedWrite(IOperation repeater, BufferTypes buffers, IInvocationOperation? send = null)
    {
        if (repeater is not ILoopOperation loop || loop.IsInScope() || loop.Body.DescendantsAndSelf().Any(part => WaitsForOthers(part, buffers, send)))
            return null;
        var calls = loop.Body.DescendantsAndSelf().OfType<IInvocationOperation>().Where(buffers.IsBufferCall).ToArray();
        if (calls.Any(static call => call.TargetMethod.Name is "FlushAsync" or "WhenSettledAsync" or "EndBufferingScope"))
            return null;
        return calls.FirstOrDefault(call => IsWrite(call) && BulkLoop.Around(call) == loop) is { } write && write.Receiver() is { } output && output.IsInvariantIn(loop)
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

    public static bool IsWrite(IInvocationOperation call) => call.TargetMethod.Name is "Write" or "TryWrite" or "WriteAsync";

    /// <summary>A write of a loop without a scope, and where the fix finds what it puts together.</summary>
    internal sealed class UnscopedWrite(ILoopOperation loop, IInvocationOperation call, IOperation output, IEnumerable<IInvocationOperation> writes)
    {
        public IInvocationOperation Call => call;

        /// <summary>Null when the loop writes to several.</summary>
        public IOperation? Handle { get; } =
            BufferTypes.HandleOf(call) is { Value: { } handle } && handle.IsInvariantIn(loop) && writes.All(write => SyntaxFactory.AreEquivalent(BufferTypes.HandleOf(write)?.Value.Syntax, handle.Syntax)) ? handle : null;

        /// <summary>The loop, the buffer and, if it is the same in each iteration, the handle.</summary>
        public ImmutableArray<Location> Locations =>
            [loop.Syntax.GetLocation(), output.Syntax.GetLocation(), .. Handle is null ? ImmutableArray<Location>.Empty : [Handle.Syntax.GetLocation()]];
    }
}
