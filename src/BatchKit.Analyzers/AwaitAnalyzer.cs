using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.Diagnostics;
using Microsoft.CodeAnalysis.Operations;

namespace BatchKit.Analyzers;

/// <summary>BK0006: a write or a flush whose task is thrown away.</summary>
[DiagnosticAnalyzer(LanguageNames.CSharp)]
internal sealed class AwaitAnalyzer() : BufferAnalyzer(OperationKind.Invocation, Rules.NotAwaited)
{
    protected override void Analyze(OperationAnalysisContext context, BufferTypes buffers)
    {
        var call = (IInvocationOperation)context.Operation;
        if (call.TargetMethod.Name is not ("WriteAsync" or "FlushAsync" or "WhenSettledAsync") || !buffers.IsBufferCall(call))
            return;
        if (call.Consumer() is not (IExpressionStatementOperation or ISimpleAssignmentOperation { Target: IDiscardOperation }))
            return;
        var advice = call.TargetMethod.Name == "WriteAsync" ? "Await it, or call Write or TryWrite, which do not wait" : "Await it";
        context.ReportDiagnostic(Diagnostic.Create(Rules.NotAwaited, call.NameLocation(), call.TargetMethod.Name, advice));
    }
}
