using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.Diagnostics;
using Microsoft.CodeAnalysis.Operations;

namespace BatchKit.Analyzers;

/// <summary>BK0006: a write, a flush or the end of a scope whose task is thrown away.</summary>
[DiagnosticAnalyzer(LanguageNames.CSharp)]
internal sealed class AwaitAnalyzer() : BufferAnalyzer(OperationKind.Invocation, Rules.NotAwaited)
{
    protected override void Analyze(OperationAnalysisContext context, BufferTypes buffers)
    {
        var call = (IInvocationOperation)context.Operation;
        if (call.TargetMethod.ReturnType.Name is not ("ValueTask" or "Task") || AdviceOn(call, buffers) is not { } advice)
            return;
        IOperation task = call;
        while (task.Consumer() is IInvocationOperation form && form.IsTaskForm())
            task = form;
        if (task.Consumer() is IExpressionStatementOperation or ISimpleAssignmentOperation { Target: IDiscardOperation })
            context.ReportDiagnostic(Diagnostic.Create(Rules.NotAwaited, call.NameLocation(), call.TargetMethod.Name, advice));
    }

    private static string? AdviceOn(IInvocationOperation call, BufferTypes buffers) => call.TargetMethod.Name switch
    {
        "WriteAsync" when buffers.IsBufferCall(call) => "Await it, or call Write or TryWrite, which do not wait",
        "FlushAsync" or "WhenSettledAsync" when buffers.IsBufferCall(call) => "Await it",
        "DisposeAsync" when buffers.IsScope(call.TargetMethod.ContainingType) => "Await it, or call Dispose, which does not wait",
        _ => null,
    };
}
